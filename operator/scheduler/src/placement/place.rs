//! Placement of a whole gang.

use super::frontier::{self, SearchResult};
use super::group_fit::CapacityView;
use super::group_place::{charge_runs, fill_group, groups_by_size};
use super::packing::PackingState;
use super::request::{NoPlace, PlacementRequest, PodRuns};
use super::topology;
use super::undo::{NodeCharge, UndoLog};
use crate::gang::PlacementStrategy;
use crate::state::{Catalog, GroupShape, Nodes};

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
    let in_order = |runs, nodes: &Nodes| topology::order_groups(nodes, |_| None, runs);
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

/// Returns the placement that a gang finds once these pods have left. Leaves the state unchanged.
pub(crate) fn place_without<'h>(
    nodes: &mut Nodes,
    packing: &mut PackingState,
    catalog: &Catalog,
    wish: &PlacementRequest<'_>,
    leaving: impl IntoIterator<Item = &'h NodeCharge>,
) -> Option<Vec<PodRuns>> {
    let mut left = UndoLog::default();
    for hold in leaving {
        left.uncharge(nodes, hold);
    }
    let mut placed = UndoLog::default();
    let found = place(nodes, packing, catalog, wish, &mut placed);
    placed.roll_back(nodes);
    left.roll_back(nodes);
    found.ok()
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
