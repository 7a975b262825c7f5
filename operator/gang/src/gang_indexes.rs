//! The pods of a task group that are part of its gang: those with the lowest indexes, or the slices
//! that the plan names.

use trellis_api::job::TaskGroup;
use trellis_api::pod_group::Plan;

/// Indexes of the pods of one task group that are part of its gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangIndexes {
    /// First indexes of blocks of consecutive pods, which all have the same size. Empty: one block,
    /// from 0.
    starts: Vec<u32>,
    count: u32,
}

impl GangIndexes {
    /// Returns the indexes of a group. Without a plan, these are the lowest ones.
    #[must_use]
    pub fn new(group: &TaskGroup, plan: Option<&Plan>) -> Self {
        Self {
            starts: plan.map_or_else(Vec::new, |plan| planned_starts(plan, &group.name)),
            count: group.gang_size(),
        }
    }

    /// Returns the indexes of a group that has this many pods in a plan.
    #[must_use]
    pub(crate) fn planned(plan: &Plan, group: &str, count: u32) -> Self {
        Self {
            starts: planned_starts(plan, group),
            count,
        }
    }

    /// Returns the first indexes of the blocks. Empty: one block, from 0.
    #[must_use]
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// Returns true if the pod of this index is part of the gang.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        let size = self.block_size();
        let within = |start: &u32| index.checked_sub(*start).is_some_and(|at| at < size);
        match self.starts.is_empty() {
            true => index < self.count,
            false => self.starts.iter().any(within),
        }
    }

    /// Returns the indexes in the order of the plan's assignments.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.count).map(|position| self.at(position))
    }

    /// Returns the index at this position in the order of the plan's assignments.
    #[must_use]
    pub fn at(&self, position: u32) -> u32 {
        let size = self.block_size();
        let block = position.checked_div(size).unwrap_or(0);
        let start = usize::try_from(block)
            .ok()
            .and_then(|block| self.starts.get(block));
        let within = position.checked_rem(size).unwrap_or(0);
        start.map_or(position, |start| start.saturating_add(within))
    }

    /// Returns the number of pods.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    fn block_size(&self) -> u32 {
        let blocks = u32::try_from(self.starts.len().max(1)).unwrap_or(u32::MAX);
        self.count.checked_div(blocks).unwrap_or(0)
    }
}

fn planned_starts(plan: &Plan, group: &str) -> Vec<u32> {
    let planned = plan.elastic.iter().find(|planned| planned.name == group);
    let starts = planned
        .into_iter()
        .flat_map(|planned| &planned.slice_starts);
    starts
        .filter_map(|start| u32::try_from(*start).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_the_plan_take_the_place_of_the_lowest_indexes() {
        let indexes = |starts: &[u32], count| GangIndexes {
            starts: starts.to_vec(),
            count,
        };
        let list = |indexes: &GangIndexes| indexes.iter().collect::<Vec<_>>();
        let lowest = indexes(&[], 3);
        assert_eq!(list(&lowest), [0, 1, 2]);
        assert_eq!([2, 3].map(|i| lowest.contains(i)), [true, false]);
        let slices = indexes(&[6, 2], 4);
        assert_eq!(list(&slices), [6, 7, 2, 3]);
        let is_in = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|i| slices.contains(i));
        assert_eq!(
            is_in,
            [false, false, true, true, false, false, true, true, false]
        );
        assert_eq!(list(&GangIndexes::default()), [0; 0]);
    }
}
