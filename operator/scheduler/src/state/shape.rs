//! A gang reduced to what placement looks at: numbers instead of names.

use std::sync::Arc;

use super::{DemandIdx, ResourceIdx, SignatureIdx};
use crate::ids::NodeName;
use crate::topology::TopologyRequest;

/// What one pod needs, by resource, the pod itself among it. Never 0.
pub(crate) type Demand = [(ResourceIdx, i64)];

/// A gang's demand. Gangs of equal shape have equal answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// In the order of the gang's.
    pub(crate) groups: Vec<GroupShape>,
    /// Sorted, each once.
    pub(crate) excluded: Vec<NodeName>,
    /// How close all pods are to be.
    pub(crate) topology: Option<TopologyRequest>,
    /// What all pods of all groups need, by resource. Never 0.
    pub(crate) total: Vec<(ResourceIdx, i128)>,
}

/// A task group's demand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupShape {
    /// Pods.
    pub(crate) count: u32,
    /// What one needs.
    pub(crate) demand: Arc<Vec<(ResourceIdx, i64)>>,
    /// The same, interned.
    pub(crate) demand_idx: DemandIdx,
    /// Its constraints.
    pub(crate) signature: SignatureIdx,
    /// The device that packing looks at first, if it needs any.
    pub(crate) device: Option<ResourceIdx>,
    /// How close its pods are to be, within what the gang asks.
    pub(crate) topology: Option<TopologyRequest>,
}

impl GroupShape {
    /// What one pod needs of a resource.
    pub(crate) fn need(&self, resource: ResourceIdx) -> i64 {
        self.demand
            .iter()
            .find(|(r, _)| *r == resource)
            .map_or(0, |(_, need)| *need)
    }

    /// True where as many pods need and accept the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let what = |group: &Self| (group.count, group.demand_idx, group.signature, group.device);
        what(self) == what(other)
    }

    /// What all pods need, by resource.
    fn total(&self) -> impl Iterator<Item = (ResourceIdx, i128)> {
        let count = i128::from(self.count);
        self.demand
            .iter()
            .map(move |(r, need)| (*r, i128::from(*need).saturating_mul(count)))
    }
}

impl Shape {
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
