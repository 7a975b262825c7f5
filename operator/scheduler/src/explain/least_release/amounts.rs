//! Amounts that pods request of nodes, by resource.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::state::NodeIdx;

/// An amount of each resource in `LeastRelease::lines`, in their order.
pub(super) type ReleaseAmounts = SmallVec<[i64; 4]>;

/// Amounts that the pods put so far request on each node.
pub(super) type NodeRequests = BTreeMap<NodeIdx, ReleaseAmounts>;

/// The amounts that placed pods request on each node, in a search and in the search that encloses it.
#[derive(Default)]
pub(super) struct PlacedRequests<'a> {
    pub(super) own: NodeRequests,
    pub(super) earlier: Option<&'a PlacedRequests<'a>>,
}

impl PlacedRequests<'_> {
    pub(super) fn get(&self, node: &NodeIdx) -> Option<&ReleaseAmounts> {
        let earlier = || self.earlier?.get(node);
        self.own.get(node).or_else(earlier)
    }
}

/// The next slice in a domain. The order is the one in which slices are placed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NextSlice {
    pub(super) cost: ReleaseAmounts,
    /// The number of the domain.
    pub(super) domain: usize,
    /// The amounts requested on its nodes once the slice is placed. None: the cost is only a lower bound.
    pub(super) nodes: Option<Vec<(NodeIdx, ReleaseAmounts)>>,
}

/// Returns how much must be freed until `all` is free.
pub(super) fn shortfall(free: i64, all: i64) -> i64 {
    match all {
        0 => 0,
        all => all.saturating_sub(free).max(0),
    }
}

pub(super) fn compare_costs<T>(one: &(ReleaseAmounts, T), other: &(ReleaseAmounts, T)) -> Ordering {
    one.0.cmp(&other.0)
}

pub(super) fn add_amounts(
    one: &ReleaseAmounts,
    other: &ReleaseAmounts,
    times: u32,
) -> ReleaseAmounts {
    let all = one.iter().zip(other);
    all.map(|(one, other)| one.saturating_add(other.saturating_mul(i64::from(times))))
        .collect()
}
