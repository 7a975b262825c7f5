//! Usage of a node by pods, and the placement that a gang finds without it.

use std::sync::Arc;

use super::pack::Runs;
use super::packing::Packing;
use super::place::{Wish, place};
use super::undo::UndoLog;
use crate::state::{Catalog, NodeIdx, Nodes, ResourceIdx};

/// Usage of a node by a number of equal pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) node: NodeIdx,
    /// Usage of one of the pods.
    pub(crate) demand: Arc<Vec<(ResourceIdx, i64)>>,
    pub(crate) pods: u32,
    /// The pods belong to a placed gang.
    pub(crate) held: bool,
}

/// The placement that a gang finds once these pods have left. Leaves the state unchanged.
pub(crate) fn place_without<'h>(
    nodes: &mut Nodes,
    packing: &mut Packing,
    catalog: &Catalog,
    wish: &Wish<'_>,
    leaving: impl IntoIterator<Item = &'h Hold>,
) -> Option<Vec<Runs>> {
    let mut left = UndoLog::default();
    for hold in leaving {
        left.lift(nodes, hold);
    }
    let mut placed = UndoLog::default();
    let found = place(nodes, packing, catalog, wish, &mut placed);
    placed.roll_back(nodes);
    left.roll_back(nodes);
    found.ok()
}
