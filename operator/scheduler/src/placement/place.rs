//! Placement of a whole gang.

use smallvec::SmallVec;

use super::frontier::{self, SearchResult};
use super::group_fit::CapacityView;
use super::pack::{self, PodRuns};
use super::packing::PackingState;
use super::ranking::CurrentRanking;
use super::spread;
use super::topology;
use super::undo::UndoLog;
use crate::gang::PlacementStrategy;
use crate::state::{
    Catalog, ConstraintSignature, GangShape, GroupShape, NodeIdx, Nodes, PreferenceTier,
};

/// Returns the dominant share of one pod: the largest part that it takes of any resource's total,
/// in parts of 2^64.
pub(crate) fn dominant_share(nodes: &Nodes, group: &GroupShape) -> u128 {
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

/// No place was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace {
    /// True if the search reached no bound, so there is no place.
    pub(crate) certain: bool,
}

/// The requirements of a gang on its placement.
pub(crate) struct PlacementRequest<'a> {
    pub(crate) shape: &'a GangShape,
    pub(crate) strategy: PlacementStrategy,
    pub(crate) excluded: &'a [NodeIdx],
}

/// Nodes that a gang of this shape excludes.
pub(crate) fn excluded_nodes(shape: &GangShape, nodes: &Nodes) -> SmallVec<[NodeIdx; 4]> {
    let excluded = shape.excluded.iter();
    excluded.filter_map(|name| nodes.find(name)).collect()
}

/// Finds a place for all groups of a gang and charges it to the live state; the log can undo the
/// charge. The runs are in the order of the gang's groups, each node once, neighbouring ranks on
/// neighbouring nodes.
///
/// It places the largest group first, packed or spread. If that fails although every group alone
/// would fit, the order is wrong or the groups compete. Then a bounded search tries every way,
/// except for shared devices. The placement meets the gang's topology requests.
///
/// # Errors
///
/// [`NoPlace`]: no place was found, and the state is unchanged.
pub(crate) fn place(
    nodes: &mut Nodes,
    packing: &mut PackingState,
    catalog: &Catalog,
    wish: &PlacementRequest<'_>,
    log: &mut UndoLog,
) -> Result<Vec<PodRuns>, NoPlace> {
    let PlacementRequest {
        shape, excluded, ..
    } = *wish;
    if topology::has_request(shape) {
        return topology::place(nodes, packing, catalog, wish, log);
    }
    let in_order = |runs: Vec<PodRuns>, nodes: &Nodes| -> Vec<PodRuns> {
        let runs = runs.into_iter();
        runs.map(|runs| topology::order_runs(nodes, None, runs))
            .collect()
    };
    if let Some(runs) = place_largest_first(nodes, packing, catalog, wish, log) {
        return Ok(in_order(runs, nodes));
    }
    log.roll_back(nodes);
    let mut alone = |g: &GroupShape| {
        fill_group(
            nodes,
            packing,
            catalog,
            g,
            (PlacementStrategy::Pack, excluded),
        )
        .is_some()
    };
    if shape.groups.len() < 2 || !shape.groups.iter().all(&mut alone) {
        return Err(NoPlace { certain: true });
    }
    match frontier::search(nodes, catalog, shape, excluded, CapacityView::Free) {
        SearchResult::Placed(runs) => {
            for (group, runs) in shape.groups.iter().zip(&runs) {
                charge_runs(nodes, group, runs, log);
            }
            Ok(in_order(runs, nodes))
        }
        SearchResult::NoPlace { certain } => Err(NoPlace { certain }),
    }
}

/// Returns the groups with their numbers, largest pods first.
pub(crate) fn groups_by_size<'a>(
    nodes: &Nodes,
    shape: &'a GangShape,
) -> Vec<(usize, &'a GroupShape)> {
    let mut order: Vec<(usize, &GroupShape)> = shape.groups.iter().enumerate().collect();
    // The sort is stable: equal groups keep their order.
    order.sort_by_cached_key(|(_, group)| std::cmp::Reverse(dominant_share(nodes, group)));
    order
}

fn place_largest_first(
    nodes: &mut Nodes,
    packing: &mut PackingState,
    catalog: &Catalog,
    wish: &PlacementRequest<'_>,
    log: &mut UndoLog,
) -> Option<Vec<PodRuns>> {
    let order = groups_by_size(nodes, wish.shape);
    let mut placed: Vec<(usize, PodRuns)> = Vec::with_capacity(order.len());
    for (at, group) in order {
        let how = (wish.strategy, wish.excluded);
        let runs = fill_group(nodes, packing, catalog, group, how)?;
        charge_runs(nodes, group, &runs, log);
        placed.push((at, runs));
    }
    placed.sort_unstable_by_key(|(at, _)| *at);
    Some(placed.into_iter().map(|(_, runs)| runs).collect())
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

/// A usable node: tier, rank of its class, position by name, node, and number of pods that fit.
pub(super) type NodeChoice<By> = (PreferenceTier, By, u32, NodeIdx, u32);

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
        PlacementStrategy::Pack => pack::fill_in_order(among.collect(), count),
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
