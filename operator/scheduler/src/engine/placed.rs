//! A gang that has its place.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use crate::gang::Gang;
use crate::placement::{Placement, Runs};
use crate::state::{NodeIdx, Nodes, Shape};
use crate::time::Time;

/// A gang as it was placed, where its pods go, and which of them are assumed:
/// charged to their node because they are planned there, not because they have
/// been seen.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) gang: Arc<Gang>,
    pub(crate) shape: Arc<Shape>,
    /// When it got its place.
    pub(crate) since: Time,
    /// In the order of the gang's.
    pub(crate) groups: Vec<PlacedGroup>,
}

/// One task group of it.
#[derive(Debug, Default)]
pub(crate) struct PlacedGroup {
    runs: Runs,
    /// For each run, the index after its last pod.
    ends: Vec<u32>,
    assumed: FixedBitSet,
}

impl PlacedGroup {
    /// A group whose pods are all assumed.
    pub(crate) fn new(runs: Runs) -> Self {
        let mut end = 0_u32;
        let ends: Vec<u32> = runs
            .iter()
            .map(|(_, pods)| {
                end = end.saturating_add(*pods);
                end
            })
            .collect();
        let mut assumed = FixedBitSet::with_capacity(end as usize);
        assumed.insert_range(..);
        Self {
            runs,
            ends,
            assumed,
        }
    }

    /// Nodes with how many pods go onto each, in the order of the indexes.
    pub(crate) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Pods that have a node.
    pub(crate) fn count(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The node of one pod.
    pub(crate) fn node(&self, index: u32) -> Option<NodeIdx> {
        let run = self.ends.partition_point(|end| *end <= index);
        self.runs.get(run).map(|(node, _)| *node)
    }

    pub(crate) fn is_assumed(&self, index: u32) -> bool {
        self.assumed.contains(index as usize)
    }

    /// The pod is no longer assumed. Says whether it was.
    pub(crate) fn settle(&mut self, index: u32) -> bool {
        let was = self.is_assumed(index);
        if was {
            self.assumed.set(index as usize, false);
        }
        was
    }

    /// Indexes of the pods that are not assumed.
    pub(crate) fn settled(&self) -> impl Iterator<Item = u32> {
        (0..self.count()).filter(|index| !self.is_assumed(*index))
    }

    /// Nodes with how many assumed pods are on each.
    pub(crate) fn assumed(&self) -> Runs {
        let mut from = 0_u32;
        self.runs
            .iter()
            .zip(&self.ends)
            .map(|((node, _), end)| {
                let here = self.assumed.count_ones(from as usize..*end as usize);
                from = *end;
                (*node, u32::try_from(here).unwrap_or(u32::MAX))
            })
            .filter(|(_, pods)| *pods > 0)
            .collect()
    }
}

/// A place as the outside knows it.
pub(crate) fn placement<'r>(
    nodes: &Nodes,
    gang: &Gang,
    groups: impl Iterator<Item = &'r Runs>,
) -> Placement {
    gang.groups
        .iter()
        .zip(groups)
        .map(|(group, runs)| {
            let named = runs
                .iter()
                .map(|(node, pods)| (nodes.name(*node).clone(), *pods));
            (group.name.clone(), named.collect())
        })
        .collect()
}

impl Placed {
    /// Where its pods go.
    pub(crate) fn placement(&self, nodes: &Nodes) -> Placement {
        placement(nodes, &self.gang, self.groups.iter().map(PlacedGroup::runs))
    }
}
