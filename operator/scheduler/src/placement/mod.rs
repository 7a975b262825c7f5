//! The placement of a gang's pods, and the search for it.

mod fit_counter;
mod fragmentation;
mod free_slices;
mod frontier;
mod group_fit;
mod group_place;
mod history;
mod pack;
mod packing;
mod place;
mod ranking;
mod request;
mod slice_keeper;
mod slice_totals;
mod spread;
mod topology;
mod undo;

pub use history::TaskHistory;
pub use packing::PackingRule;

pub(crate) use fit_counter::{FitCounter, FreedAmounts};
pub(crate) use frontier::{SearchResult, search};
pub(crate) use group_fit::{CapacityView, GroupFit};
pub(crate) use group_place::groups_by_size;
pub(crate) use packing::PackingState;
pub(crate) use place::{place, place_without};
pub(crate) use request::{NoPlace, PlacementRequest, PodRuns, excluded_nodes};
pub(crate) use topology::{GangTopology, GroupSlices, ResolvedLayer, ResolvedRequest};
pub(crate) use topology::{
    has_request as asks_for_topology, place_one_group, round_down, search as search_topology,
};
pub(crate) use undo::{NodeCharge, UndoLog};

use serde::{Deserialize, Serialize};

use crate::gang::TaskGroup;
use crate::ids::{GroupName, NodeName};

/// A node for every pod of a gang, run-length by node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    groups: Vec<GroupPlacement>,
}

/// A node for every pod of one task group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPlacement {
    /// The task group.
    pub group: GroupName,
    /// Nodes in the order of pod indexes, each with its number of consecutive pods: `[(a, 2), (b,
    /// 1)]` puts pods 0 and 1 on `a`, and pod 2 on `b`.
    pub runs: Vec<(NodeName, u32)>,
}

impl Placement {
    /// Creates a placement without pods.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task group by its runs.
    pub fn push(&mut self, group: GroupName, runs: Vec<(NodeName, u32)>) {
        self.groups.push(GroupPlacement { group, runs });
    }

    /// Returns the task groups, in the order of the gang's groups.
    #[must_use]
    pub fn groups(&self) -> &[GroupPlacement] {
        &self.groups
    }

    /// Returns the runs of one task group.
    #[must_use]
    pub fn runs(&self, group: &GroupName) -> Option<&[(NodeName, u32)]> {
        self.groups
            .iter()
            .find(|g| g.group == *group)
            .map(|g| g.runs.as_slice())
    }

    /// Returns the runs of a group of a gang. If it is merged, these are the runs of its parts, in
    /// order. Leaves out pods that exceed the count of a part.
    pub fn runs_of<'p>(
        &'p self,
        group: &'p TaskGroup,
    ) -> impl Iterator<Item = (&'p NodeName, u32)> {
        group.members().flat_map(|member| {
            let mut left = member.count();
            let runs = self.runs(member.name).unwrap_or(&[]).iter();
            runs.map(move |(node, pods)| {
                let pods = (*pods).min(left);
                left = left.saturating_sub(pods);
                (node, pods)
            })
        })
    }

    /// Returns the task group, the index in it and the node of every pod.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupName, u32, &NodeName)> {
        self.groups.iter().flat_map(|group| {
            group
                .runs
                .iter()
                .flat_map(|(node, count)| (0..*count).map(move |_| node))
                .zip(0_u32..)
                .map(|(node, index)| (&group.group, index, node))
        })
    }

    /// Returns the number of pods.
    #[must_use]
    pub fn pod_count(&self) -> u64 {
        self.groups
            .iter()
            .flat_map(|group| &group.runs)
            .fold(0, |sum, (_, count)| sum.saturating_add(u64::from(*count)))
    }
}

impl FromIterator<(GroupName, Vec<(NodeName, u32)>)> for Placement {
    fn from_iter<I: IntoIterator<Item = (GroupName, Vec<(NodeName, u32)>)>>(groups: I) -> Self {
        let mut placement = Self::new();
        for (group, runs) in groups {
            placement.push(group, runs);
        }
        placement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_expanded_to_pod_indexes() {
        let placement: Placement = [
            (
                GroupName::new("worker"),
                vec![(NodeName::new("a"), 2), (NodeName::new("b"), 1)],
            ),
            (GroupName::new("master"), vec![(NodeName::new("b"), 1)]),
        ]
        .into_iter()
        .collect();
        let pods: Vec<_> = placement
            .iter()
            .map(|(group, index, node)| (group.as_str(), index, node.as_str()))
            .collect();
        assert_eq!(
            pods,
            [
                ("worker", 0, "a"),
                ("worker", 1, "a"),
                ("worker", 2, "b"),
                ("master", 0, "b")
            ]
        );
        assert_eq!(placement.pod_count(), 4);
        assert_eq!(
            placement.runs(&GroupName::new("master")).map(<[_]>::len),
            Some(1)
        );
        assert_eq!(placement.runs(&GroupName::new("none")), None);
    }
}
