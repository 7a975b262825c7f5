//! The resources that all task groups need, on the nodes that match any of them.

use std::collections::{BTreeMap, BTreeSet};

use super::context::ExplanationContext;
use super::survey::{FreeResource, GroupSurvey};
use crate::state::{NodeIdx, ResourceIdx};

/// Amounts of a resource on all nodes that match any of the groups.
#[derive(Default)]
pub(super) struct UnionCapacity {
    pub(super) capacity: i128,
    pub(super) free: i128,
    pub(super) used_by_gangs: i128,
    pub(super) used_by_external_pods: i128,
}

impl ExplanationContext<'_> {
    /// Returns the amounts of each resource that a group needs, on the nodes that match any group.
    pub(super) fn union_capacity(
        &self,
        surveys: &[GroupSurvey],
    ) -> BTreeMap<ResourceIdx, UnionCapacity> {
        let mut union: BTreeMap<ResourceIdx, UnionCapacity> = BTreeMap::new();
        if surveys.len() < 2 {
            return union;
        }
        let all: BTreeSet<NodeIdx> = surveys.iter().flat_map(|s| &s.nodes).copied().collect();
        for (resource, _) in &self.shape.total {
            let sums = union.entry(*resource).or_default();
            for node in &all {
                let has = i128::from(self.nodes.allocatable(*resource, *node));
                let free = i128::from(self.nodes.free(*resource, *node).max(0));
                let (gangs, others) = self.usage(*resource, *node);
                sums.capacity = sums.capacity.saturating_add(has);
                sums.free = sums.free.saturating_add(free);
                sums.used_by_gangs = sums.used_by_gangs.saturating_add(gangs);
                sums.used_by_external_pods = sums.used_by_external_pods.saturating_add(others);
            }
        }
        union
    }

    /// Returns these amounts with the need of all groups: devices first, then by name.
    pub(super) fn union_lines<'s>(
        &self,
        surveys: &'s [GroupSurvey],
        union: &'s BTreeMap<ResourceIdx, UnionCapacity>,
    ) -> Vec<(&'s FreeResource, i128, &'s UnionCapacity)> {
        let mut lines: Vec<(&FreeResource, i128, &UnionCapacity)> = self
            .shape
            .total
            .iter()
            .filter_map(|(resource, needs)| {
                let mut all = surveys.iter().flat_map(|s| &s.resources);
                let line = all.find(|l| l.need.resource == *resource)?;
                Some((line, *needs, union.get(resource)?))
            })
            .collect();
        lines.sort_by_key(|(line, ..)| (!line.need.name.is_device(), &line.need.name));
        lines
    }
}

/// Returns the number of nodes that match any group.
pub(super) fn union_nodes(surveys: &[GroupSurvey]) -> u32 {
    let all: BTreeSet<NodeIdx> = surveys.iter().flat_map(|s| &s.nodes).copied().collect();
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}
