//! Placement of one task group, and the order in which a gang's groups are placed.

use std::cmp::Reverse;

use super::pack;
use super::packing::PackingState;
use super::ranking::CurrentRanking;
use super::request::PodRuns;
use super::spread;
use super::undo::UndoLog;
use crate::gang::PlacementStrategy;
use crate::state::{Catalog, ConstraintSignature, GangShape, GroupShape, NodeIdx, Nodes};

/// Returns the dominant share of one pod: the largest part that it takes of any resource's total,
/// in parts of 2^64.
pub(super) fn dominant_share(nodes: &Nodes, group: &GroupShape) -> u128 {
    group
        .demand
        .iter()
        .map(|(resource, need)| {
            let total = nodes.column(*resource).map_or(0, |c| c.total());
            let need = u128::try_from(*need).unwrap_or(0).saturating_mul(1 << 64);
            need.checked_div(u128::try_from(total).unwrap_or(0))
                .unwrap_or(u128::MAX)
        })
        .max()
        .unwrap_or(0)
}

/// Returns the groups with their numbers, largest pods first.
pub(crate) fn groups_by_size<'a>(
    nodes: &Nodes,
    shape: &'a GangShape,
) -> Vec<(usize, &'a GroupShape)> {
    let mut order: Vec<(usize, &GroupShape)> = shape.groups.iter().enumerate().collect();
    // The sort is stable: equal groups keep their order.
    order.sort_by_cached_key(|(_, group)| Reverse(dominant_share(nodes, group)));
    order
}

/// Finds a place for one group. None if the nodes do not hold all of its pods.
pub(super) fn fill_group(
    nodes: &mut Nodes,
    packing: &mut PackingState,
    catalog: &Catalog,
    group: &GroupShape,
    (strategy, excluded): (PlacementStrategy, &[NodeIdx]),
) -> Option<PodRuns> {
    if group.count == 0 {
        return Some(PodRuns::new());
    }
    let signature = catalog.signature(group.signature)?;
    let ranked = packing.rank(group, (nodes, catalog), false)?;
    if !ranked.may_hold(group.count) {
        return None;
    }
    let allows = |node: NodeIdx| signature.allows(node) && !excluded.contains(&node);
    match strategy {
        PlacementStrategy::Pack => pack::fill(&ranked, group.count, signature, &allows),
        PlacementStrategy::Spread => spread::fill(&ranked, group.count, signature, &allows),
    }
}

/// Finds a place for one group among some nodes, each given with the number of pods that fit. None
/// if they do not hold all of its pods. The ranking must be by class.
pub(super) fn fill_among(
    ranked: &CurrentRanking<'_>,
    count: u32,
    (strategy, signature): (PlacementStrategy, &ConstraintSignature),
    among: impl Iterator<Item = (NodeIdx, u32)>,
) -> Option<PodRuns> {
    let mut wanted = ranked.rank_lookup();
    let among = among.filter_map(|(node, pods)| {
        let (order, _) = wanted(node)?;
        Some((
            signature.tier(node),
            order,
            ranked.position_by_name(node),
            node,
            pods,
        ))
    });
    match strategy {
        PlacementStrategy::Pack => pack::fill_in_order(ranked, among.collect(), count),
        PlacementStrategy::Spread => {
            let free = among.map(|(tier, order, rank, node, pods)| {
                (tier, order.to_most_free(), rank, node, pods)
            });
            spread::fill_in_order(free.collect(), count)
        }
    }
}

pub(super) fn charge_runs(
    nodes: &mut Nodes,
    group: &GroupShape,
    runs: &PodRuns,
    log: &mut UndoLog,
) {
    for (node, pods) in runs {
        log.charge(nodes, *node, &group.demand, *pods);
    }
}
