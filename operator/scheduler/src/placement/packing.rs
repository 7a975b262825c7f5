//! The state of packing between placements.

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
    /// The signatures that classes distinguish, with their constraints, because numbers are reused.
    lenses: Vec<(SignatureIdx, Constraints)>,
    /// The renewal and the number of kinds of shares that the scores belong to.
    of: (u64, usize),
}

impl Packing {
    /// Changes whenever the choice between nodes changes.
    pub(crate) fn version(&self) -> u64 {
        self.seen.version()
    }

    /// Counts the pods of a new gang.
    pub(crate) fn learn(&mut self, catalog: &mut Catalog, shape: &Shape) {
        self.seen.learn(catalog, shape);
    }

    /// Exports the learned history.
    pub(crate) fn export(&self, catalog: &Catalog) -> History {
        self.seen.export(catalog)
    }

    /// Replaces the history by that of another engine.
    pub(crate) fn restore(&mut self, catalog: &mut Catalog, history: &History) {
        self.seen.restore(catalog, history);
    }

    /// Brings typical tasks and their signatures up to date. To be called before a gang is placed.
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
            // Most renewals change only weights: then the classes stay.
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

    /// The classes of nodes as packing ranks them for a group now. With `by_class` the ranking can
    /// also be looked up by node.
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
