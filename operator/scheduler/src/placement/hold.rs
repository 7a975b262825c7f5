//! What pods hold of a node, and the place that others find without them.

use std::sync::Arc;

use super::pack::Runs;
use super::packing::Packing;
use super::place::{Wish, place};
use super::undo::UndoLog;
use crate::state::{Catalog, NodeIdx, Nodes, ResourceIdx};

/// What so many pods hold of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) node: NodeIdx,
    /// Of one of them.
    pub(crate) demand: Arc<Vec<(ResourceIdx, i64)>>,
    pub(crate) pods: u32,
    /// They are a placed gang's.
    pub(crate) held: bool,
}

/// The place that a gang finds once these have left. Everything is as before.
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
