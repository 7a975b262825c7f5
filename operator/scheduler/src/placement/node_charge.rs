//! Usage of a node by pods, and the placement that a gang finds once they have left.

use std::sync::Arc;

use super::pack::PodRuns;
use super::packing::PackingState;
use super::place::{PlacementRequest, place};
use super::undo::UndoLog;
use crate::state::{Catalog, NodeIdx, Nodes, ResourceIdx};

/// Usage of a node by a number of equal pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeCharge {
    pub(crate) node: NodeIdx,
    /// Usage of one of the pods.
    pub(crate) demand: Arc<Vec<(ResourceIdx, i64)>>,
    pub(crate) pods: u32,
    /// True if the pods belong to a placed gang.
    pub(crate) in_placed_gang: bool,
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
