//! The state of packing between placements.

use super::fragmentation::Fragmentation;
use super::free_slices::FreeSlices;
use super::history::{TaskCounts, TaskHistory};
use super::ranking::{CurrentRanking, Rankings};
use crate::constraints::Constraints;
use crate::state::{Catalog, GangShape, GroupShape, Nodes, SignatureIdx};

/// The rule by which packing orders nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackingRule {
    /// Keeps free slices of the sizes that gangs need, then prevents fragmentation of nodes.
    #[default]
    WholeDomains,
    /// Looks at single nodes only. For comparisons.
    SingleNodes,
}

/// The typical tasks, and the scores that follow from them.
#[derive(Debug, Default)]
pub(crate) struct PackingState {
    rule: PackingRule,
    task_counts: TaskCounts,
    fragmentation: Fragmentation,
    rankings: Rankings,
    free_slices: FreeSlices,
    /// The signatures that classes distinguish. The constraints identify them, because numbers are
    /// reused.
    class_signatures: Vec<(SignatureIdx, Constraints)>,
    /// The renewal and the number of kinds of shares that the scores belong to.
    scores_version: (u64, usize),
}

impl PackingState {
    /// Returns a number that changes whenever the choice between nodes changes.
    pub(crate) fn version(&self) -> u64 {
        self.task_counts.version()
    }

    pub(crate) fn set_rule(&mut self, rule: PackingRule) {
        self.rule = rule;
        self.free_slices = FreeSlices::default();
    }

    /// Counts the pods of a new gang.
    pub(crate) fn learn(&mut self, catalog: &mut Catalog, shape: &GangShape) {
        self.task_counts.learn(catalog, shape);
    }

    /// Exports the learned history.
    pub(crate) fn export(&self, catalog: &Catalog) -> TaskHistory {
        self.task_counts.export(catalog)
    }

    /// Replaces the history by that of another engine.
    pub(crate) fn restore(&mut self, catalog: &mut Catalog, history: &TaskHistory) {
        self.task_counts.restore(catalog, history);
    }

    /// Brings typical tasks and their signatures up to date. The caller must call it before it
    /// places a gang.
    pub(crate) fn prepare(&mut self, nodes: &mut Nodes, catalog: &mut Catalog) {
        nodes.enable_shares(catalog);
        nodes.rank_by_name();
        let of = (self.task_counts.version(), catalog.shares().len());
        if self.scores_version != of {
            let (fragmentation, lenses) = Fragmentation::new(&self.task_counts, nodes, catalog);
            self.fragmentation = fragmentation;
            self.rankings.clear();
            let meaning =
                |lens: &SignatureIdx| Some(catalog.signature(*lens)?.constraints().clone());
            let lenses: Vec<_> = lenses
                .into_iter()
                .filter_map(|lens| Some((lens, meaning(&lens)?)))
                .collect();
            // Most renewals change only weights: then the classes stay.
            if lenses != self.class_signatures {
                nodes.set_class_signatures(lenses.iter().map(|(lens, _)| *lens).collect());
                self.class_signatures = lenses;
            }
            self.scores_version = of;
        }
        for (signature, _) in &self.class_signatures {
            catalog.refresh_signature(*signature, nodes);
        }
        if self.rule == PackingRule::WholeDomains {
            let lenses = || {
                self.class_signatures
                    .iter()
                    .map(|(lens, _)| *lens)
                    .collect()
            };
            self.free_slices
                .prepare(&self.task_counts, lenses, nodes, catalog);
        }
    }

    /// Returns the classes of nodes as packing ranks them for a group now. With `by_class`, the
    /// caller can also look up the rank of a node.
    pub(super) fn rank<'a>(
        &'a mut self,
        group: &GroupShape,
        (nodes, catalog): (&'a mut Nodes, &Catalog),
        by_class: bool,
    ) -> Option<CurrentRanking<'a>> {
        let changed = nodes.sort_into_classes(catalog);
        self.free_slices.update(nodes, &changed);
        let scores = (&self.fragmentation, &self.free_slices);
        self.rankings
            .refresh(group, nodes, catalog, scores, by_class)
    }
}
