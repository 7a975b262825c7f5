//! The resources that all task groups need, on the nodes that match any of them.

use std::collections::{BTreeMap, BTreeSet};

use super::capacity::Question;
use super::survey::{Line, Survey};
use crate::state::{NodeIdx, ResourceIdx};

/// Amounts of a resource on all nodes that match any of the groups.
#[derive(Default)]
pub(super) struct Union {
    pub(super) capacity: i128,
    pub(super) free: i128,
    pub(super) held_by_gangs: i128,
    pub(super) held_by_others: i128,
}

impl Question<'_> {
    /// Amounts of each resource that a group needs, on the nodes that match any group.
    pub(super) fn union(&self, surveys: &[Survey]) -> BTreeMap<ResourceIdx, Union> {
        let mut union: BTreeMap<ResourceIdx, Union> = BTreeMap::new();
        if surveys.len() < 2 {
            return union;
        }
        let all: BTreeSet<NodeIdx> = surveys.iter().flat_map(|s| &s.nodes).copied().collect();
        for (resource, _) in &self.shape.total {
            let sums = union.entry(*resource).or_default();
            for node in &all {
                let has = i128::from(self.nodes.allocatable(*resource, *node));
                let free = i128::from(self.nodes.free(*resource, *node).max(0));
                let (gangs, others) = self.held(*resource, *node);
                sums.capacity = sums.capacity.saturating_add(has);
                sums.free = sums.free.saturating_add(free);
                sums.held_by_gangs = sums.held_by_gangs.saturating_add(gangs);
                sums.held_by_others = sums.held_by_others.saturating_add(others);
            }
        }
        union
    }

    /// Those amounts with the need of all groups: devices first, then by name.
    pub(super) fn union_lines<'s>(
        &self,
        surveys: &'s [Survey],
        union: &'s BTreeMap<ResourceIdx, Union>,
    ) -> Vec<(&'s Line, i128, &'s Union)> {
        let mut lines: Vec<(&Line, i128, &Union)> = self
            .shape
            .total
            .iter()
            .filter_map(|(resource, needs)| {
                let mut all = surveys.iter().flat_map(|s| &s.lines);
                let line = all.find(|l| l.asked.resource == *resource)?;
                Some((line, *needs, union.get(resource)?))
            })
            .collect();
        lines.sort_by_key(|(line, ..)| (!line.asked.name.is_device(), &line.asked.name));
        lines
    }
}

/// The number of nodes that match any group.
pub(super) fn union_nodes(surveys: &[Survey]) -> u32 {
    let all: BTreeSet<NodeIdx> = surveys.iter().flat_map(|s| &s.nodes).copied().collect();
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}
