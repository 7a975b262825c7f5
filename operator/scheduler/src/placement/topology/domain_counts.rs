//! Counts how many pods of each group the domains of a topology hold.

use std::ops::Range;
use std::sync::Arc;

use super::super::group_fit::CapacityView;
use crate::state::{GangShape, Layout, NodeIdx, Nodes};

/// For each group, the number of its pods that the nodes of a row hold. The numbers are prefix
/// sums, so each domain costs one subtraction.
#[derive(Debug, Default)]
pub(crate) struct DomainCounts {
    sums: Vec<Arc<[u64]>>,
}

impl DomainCounts {
    /// Adds the next group; `pods` returns how many of its pods a node holds.
    pub(crate) fn add(&mut self, layout: &Layout, mut pods: impl FnMut(NodeIdx) -> u32) {
        let mut sum = 0_u64;
        let mut all = Vec::with_capacity(layout.nodes().len().saturating_add(1));
        all.push(0);
        for node in layout.nodes() {
            sum = sum.saturating_add(u64::from(pods(*node)));
            all.push(sum);
        }
        self.sums.push(all.into());
    }

    /// Adds a group that is like an earlier one.
    pub(crate) fn repeat(&mut self, group: usize) {
        let like = self
            .sums
            .get(group)
            .map_or_else(|| Arc::new([]) as Arc<[u64]>, Arc::clone);
        self.sums.push(like);
    }

    /// Returns how many pods of a group the nodes of a stretch hold.
    pub(crate) fn get(&self, group: usize, stretch: &Range<usize>) -> u64 {
        let Some(sums) = self.sums.get(group) else {
            return 0;
        };
        let until = |place: usize| sums.get(place).copied().unwrap_or(0);
        until(stretch.end).saturating_sub(until(stretch.start))
    }

    /// True if the nodes of a stretch hold each group alone.
    pub(crate) fn can_hold_each(&self, shape: &GangShape, stretch: &Range<usize>) -> bool {
        let mut groups = shape.groups.iter().enumerate();
        groups.all(|(at, group)| self.get(at, stretch) >= u64::from(group.count))
    }
}

/// Returns the smallest number of domains whose amounts add up to `whole`; `usize::MAX` if all of
/// them together hold less.
pub(super) fn min_domains(domains: impl Iterator<Item = u128>, whole: u128) -> usize {
    let mut domains: Vec<u128> = domains.collect();
    domains.sort_unstable_by(|a, b| b.cmp(a));
    let mut sums = domains.iter().scan(0_u128, |sum, holds| {
        *sum = sum.saturating_add(*holds);
        Some(*sum)
    });
    let last = sums.position(|sum| sum >= whole);
    last.map_or(usize::MAX, |last| last.saturating_add(1))
}

/// True if these nodes have as much of each resource as all groups need.
pub(crate) fn has_enough(
    nodes: &Nodes,
    shape: &GangShape,
    among: &[NodeIdx],
    room: CapacityView,
) -> bool {
    shape.total.iter().all(|(resource, needs)| {
        let Some(column) = nodes.column(*resource) else {
            return false;
        };
        let mut has = 0_i128;
        among.iter().any(|node| {
            has = has.saturating_add(i128::from(room.amount(column, *node)));
            has >= *needs
        })
    })
}
