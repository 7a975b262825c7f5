//! What packing remembers between placements.

use super::fragmentation::Fragmentation;
use super::history::{History, Seen};
use super::ranking::{Ranked, Rankings};
use crate::constraints::Constraints;
use crate::state::{Catalog, GroupShape, Nodes, Shape, SignatureIdx};

/// The typical tasks, and the scores that follow from them.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    seen: Seen,
    fragmentation: Fragmentation,
    rankings: Rankings,
    /// The signatures that classes tell apart, and what they are: numbers are
    /// used again.
    lenses: Vec<(SignatureIdx, Constraints)>,
    /// The renewal that the scores are of, and the kinds of shares there were.
    of: (u64, usize),
}

impl Packing {
    /// Counts what changes how nodes are chosen between.
    pub(crate) fn version(&self) -> u64 {
        self.seen.version()
    }

    /// Counts the pods of a gang that has come.
    pub(crate) fn learn(&mut self, catalog: &mut Catalog, shape: &Shape) {
        self.seen.learn(catalog, shape);
    }

    /// What has been learned.
    pub(crate) fn export(&self, catalog: &Catalog) -> History {
        self.seen.export(catalog)
    }

    /// Takes what another engine has learned.
    pub(crate) fn restore(&mut self, catalog: &mut Catalog, history: &History) {
        self.seen.restore(catalog, history);
    }

    /// Brings typical tasks and their signatures up to date. Before a gang is placed.
    pub(crate) fn prepare(&mut self, nodes: &mut Nodes, catalog: &mut Catalog) {
        nodes.know_shares(catalog);
        nodes.rank();
        let of = (self.seen.version(), catalog.shares().len());
        if self.of != of {
            let (fragmentation, lenses) = Fragmentation::new(&self.seen, nodes, catalog);
            self.fragmentation = fragmentation;
            self.rankings.clear();
            let meaning =
                |lens: &SignatureIdx| Some(catalog.signature(*lens)?.constraints().clone());
            let lenses: Vec<_> = lenses
                .into_iter()
                .filter_map(|lens| Some((lens, meaning(&lens)?)))
                .collect();
            // Most renewals change weights alone: then the classes stay.
            if lenses != self.lenses {
                nodes.look_through(lenses.iter().map(|(lens, _)| *lens).collect());
                self.lenses = lenses;
            }
            self.of = of;
        }
        for (signature, _) in &self.lenses {
            catalog.refresh_signature(*signature, nodes);
        }
    }

    /// The classes of nodes as packing wants them for a group, as of now; `by_class`:
    /// and it says of single nodes how much they are wanted.
    pub(super) fn rank<'a>(
        &'a mut self,
        group: &GroupShape,
        (nodes, catalog): (&'a mut Nodes, &Catalog),
        by_class: bool,
    ) -> Option<Ranked<'a>> {
        nodes.sort(catalog);
        self.rankings
            .refresh(group, nodes, catalog, &self.fragmentation, by_class)
    }
}
