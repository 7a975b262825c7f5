//! The order of a gang's pods: neighbouring ranks on neighbouring nodes.
//!
//! Ranks follow the tree of a topology domain by domain, so they leave each domain only once. So a
//! ring over the pods of one group has the fewest possible neighbours in different domains, at every
//! level at once. This holds whatever the order of the domains, so each group begins in the domain in
//! which the group before it ends.

use std::cmp::Reverse;
use std::sync::Arc;

use super::super::request::PodRuns;
use super::gang_topology::ResolvedRequest;
use crate::state::{Layout, NodeIdx, Nodes};

/// Returns the runs of all groups in order, each node of a group once. `near` returns the request by
/// whose topology a group is numbered.
pub(crate) fn order_groups<'r>(
    nodes: &Nodes,
    near: impl Fn(usize) -> Option<&'r ResolvedRequest>,
    mut groups: Vec<PodRuns>,
) -> Vec<PodRuns> {
    // The ranks are a ring, so the order may begin anywhere. The smallest group has the least choice.
    let smallest = (0..groups.len()).min_by_key(|at| groups.get(*at).map_or(0, PodRuns::len));
    let smallest = smallest.unwrap_or(0);
    let mut before = None;
    for at in (smallest..groups.len()).chain(0..smallest) {
        if let Some(runs) = groups.get_mut(at) {
            *runs = order_runs(nodes, near(at), before, std::mem::take(runs));
            before = runs.last().map(|(node, _)| *node).or(before);
        }
    }
    groups
}

/// Returns the runs of a group in order, each node once. The order is that of the topology of the
/// request, or else of the finest topology whose domains contain all these nodes, or else by name.
/// It begins as close as possible to the node `before`.
pub(super) fn order_runs(
    nodes: &Nodes,
    near: Option<&ResolvedRequest>,
    before: Option<NodeIdx>,
    mut runs: PodRuns,
) -> PodRuns {
    let used = || runs.iter().map(|(node, _)| *node);
    let layout = match near {
        Some(near) => Some(Arc::clone(&near.level.layout)),
        None => nodes.domains().find_covering(used),
    };
    let place = |node: NodeIdx| match (&layout, before) {
        (Some(layout), Some(before)) => (
            Reverse(common_levels(layout, node, before)),
            node != before,
            layout.position(node),
        ),
        (Some(layout), None) => (Reverse(0), false, layout.position(node)),
        (None, before) => (
            Reverse(0),
            Some(node) != before,
            nodes.position_by_name(node),
        ),
    };
    runs.sort_unstable_by_key(|(node, _)| place(*node));
    runs.dedup_by(|next, run| {
        let same = next.0 == run.0;
        if same {
            run.1 = run.1.saturating_add(next.1);
        }
        same
    });
    runs
}

/// Returns the number of levels, from the coarsest on, at which two nodes share a domain.
fn common_levels(layout: &Layout, one: NodeIdx, other: NodeIdx) -> usize {
    let share = |depth: &usize| {
        let domain = layout.domain(*depth, one);
        domain.is_some() && domain == layout.domain(*depth, other)
    };
    (0..layout.depths()).take_while(share).count()
}
