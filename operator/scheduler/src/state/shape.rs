//! A gang reduced to the facts that placement depends on, with numbers instead of names.

use std::sync::Arc;

use super::{DemandIdx, ResourceIdx, SignatureIdx};
use crate::ids::NodeName;
use crate::topology::{SliceLayer, TopologyRequest};

/// The demand of one pod, by resource, including 1 of `pods`. Amounts are never 0.
pub(crate) type PodDemand = [(ResourceIdx, i64)];

/// The demand of a gang. The engine returns the same results for gangs of equal shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GangShape {
    /// The groups, in the order of the gang's groups.
    pub(crate) groups: Vec<GroupShape>,
    /// Names of excluded nodes, sorted, each once.
    pub(crate) excluded: Vec<NodeName>,
    /// The topology request of the gang.
    pub(crate) topology: Option<TopologyRequest>,
    /// The demand of all pods of all groups, by resource. Amounts are never 0.
    pub(crate) total: Vec<(ResourceIdx, i128)>,
}

/// A task group's demand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupShape {
    /// Number of pods.
    pub(crate) count: u32,
    /// The demand of one pod.
    pub(crate) demand: Arc<Vec<(ResourceIdx, i64)>>,
    /// The same demand, interned.
    pub(crate) demand_idx: DemandIdx,
    /// Its constraints.
    pub(crate) signature: SignatureIdx,
    /// The device that packing considers first, if the group needs any.
    pub(crate) device: Option<ResourceIdx>,
    /// The topology request of the group, within the request of the gang.
    pub(crate) topology: Option<TopologyRequest>,
    /// True if the domains of its preferred level get equal numbers of pods.
    pub(crate) balanced: bool,
    /// The slices that the group requires, coarse to fine.
    pub(crate) slices: Vec<SliceLayer>,
    /// The slices that the group only prefers, coarse to fine.
    pub(crate) preferred_slices: Vec<SliceLayer>,
}

impl GroupShape {
    /// Returns the units of one resource that a pod requests.
    pub(crate) fn need(&self, resource: ResourceIdx) -> i64 {
        self.demand
            .iter()
            .find(|(r, _)| *r == resource)
            .map_or(0, |(_, need)| *need)
    }

    /// True if the other group has as many pods with the same needs and constraints.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let what = |group: &Self| (group.count, group.demand_idx, group.signature, group.device);
        what(self) == what(other)
            && self.slices == other.slices
            && self.preferred_slices == other.preferred_slices
    }

    /// Returns the demand of all pods, by resource.
    fn total(&self) -> impl Iterator<Item = (ResourceIdx, i128)> {
        let count = i128::from(self.count);
        self.demand
            .iter()
            .map(move |(r, need)| (*r, i128::from(*need).saturating_mul(count)))
    }
}

impl GangShape {
    pub(crate) fn new(
        groups: Vec<GroupShape>,
        excluded: Vec<NodeName>,
        topology: Option<TopologyRequest>,
    ) -> Self {
        let total = total(&groups);
        Self {
            groups,
            excluded,
            topology,
            total,
        }
    }

    /// Returns the largest number of layers of slices that a group prefers.
    pub(crate) fn preferred_layers(&self) -> usize {
        let layers = self.groups.iter().map(|group| group.preferred_slices.len());
        layers.max().unwrap_or(0)
    }
}

fn total(groups: &[GroupShape]) -> Vec<(ResourceIdx, i128)> {
    let mut all: Vec<(ResourceIdx, i128)> = groups.iter().flat_map(GroupShape::total).collect();
    all.sort_unstable();
    all.dedup_by(|next, sum| {
        let same = next.0 == sum.0;
        if same {
            sum.1 = sum.1.saturating_add(next.1);
        }
        same
    });
    all.retain(|(_, needs)| *needs > 0);
    all
}
