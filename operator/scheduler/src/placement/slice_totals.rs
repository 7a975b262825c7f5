//! The pods of a group that fit in whole slices, kept up to date as single nodes change.

use std::sync::Arc;

use smallvec::SmallVec;

use super::topology::{GroupSlices, ResolvedLayer, round_down};
use crate::state::{Layout, NodeIdx};

/// Sums of pods by domain, for each layer of slices.
#[derive(Clone, Debug)]
pub(super) struct SliceTotals {
    layout: Arc<Layout>,
    /// Coarse to fine.
    layers: SmallVec<[LayerTotals; 2]>,
}

#[derive(Clone, Debug)]
struct LayerTotals {
    layer: ResolvedLayer,
    /// The pods that each domain holds in whole slices of the next finer layer.
    pods: Vec<u64>,
}

/// The change of a number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodChange {
    pub(super) before: u64,
    pub(super) after: u64,
}

impl SliceTotals {
    /// Starts without pods.
    pub(super) fn new(split: GroupSlices<'_>) -> Self {
        let layers = split.slices.layers().iter().map(|layer| LayerTotals {
            layer: *layer,
            pods: vec![0; split.layout.domain_count(layer.depth)],
        });
        Self {
            layers: layers.collect(),
            layout: Arc::clone(split.layout),
        }
    }

    /// Forgets all pods.
    pub(super) fn clear(&mut self) {
        for layer in &mut self.layers {
            layer.pods.fill(0);
        }
    }

    /// Returns how the number of pods in whole slices would change if the number of pods on a node
    /// changed.
    pub(super) fn whole_change(&self, node: NodeIdx, change: PodChange) -> PodChange {
        let layers = self.layers.iter().rev();
        layers.fold(change, |change, totals| {
            let held = self.domain(totals, node).and_then(|at| totals.pods.get(at));
            held.map_or(NO_CHANGE, |held| totals.layer.whole(*held, change))
        })
    }

    /// Changes the number of pods on a node. Returns the change of the number of pods in whole
    /// slices.
    pub(super) fn apply(&mut self, node: NodeIdx, mut change: PodChange) -> PodChange {
        for at in (0..self.layers.len()).rev() {
            let domain = self.layers.get(at).and_then(|l| self.domain(l, node));
            let totals = self.layers.get_mut(at);
            let held =
                totals.and_then(|totals| Some((totals.layer, totals.pods.get_mut(domain?)?)));
            let Some((layer, held)) = held else {
                return NO_CHANGE;
            };
            let whole = layer.whole(*held, change);
            *held = change.of(*held);
            change = whole;
        }
        change
    }

    /// Returns the pods that fit in the node's domain of the finest layer.
    pub(super) fn pods_in_domain(&self, node: NodeIdx) -> u64 {
        let finest = self.layers.last();
        let held = finest.and_then(|totals| totals.pods.get(self.domain(totals, node)?));
        held.copied().unwrap_or(0)
    }

    /// Returns the node's domain of the finest layer.
    pub(super) fn finest_domain(&self, node: NodeIdx) -> Option<usize> {
        self.domain(self.layers.last()?, node)
    }

    /// Returns the node's domain of the coarsest layer. Changes in other domains of that layer do
    /// not concern the node.
    pub(super) fn coarsest_domain(&self, node: NodeIdx) -> Option<usize> {
        self.domain(self.layers.first()?, node)
    }

    fn domain(&self, totals: &LayerTotals, node: NodeIdx) -> Option<usize> {
        let domain = self.layout.domain(totals.layer.depth, node)?;
        usize::try_from(domain).ok()
    }
}

const NO_CHANGE: PodChange = PodChange {
    before: 0,
    after: 0,
};

impl PodChange {
    /// Returns a sum after the change of one of its parts.
    pub(super) fn of(self, sum: u64) -> u64 {
        sum.saturating_add(self.after).saturating_sub(self.before)
    }
}

impl ResolvedLayer {
    /// Returns the change of the pods in whole slices of a domain that holds `held` pods.
    fn whole(self, held: u64, change: PodChange) -> PodChange {
        PodChange {
            before: round_down(held, self.pods),
            after: round_down(change.of(held), self.pods),
        }
    }
}
