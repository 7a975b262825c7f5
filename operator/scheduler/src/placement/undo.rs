//! Tentative charges on the live state, and the log that takes them back.

use std::sync::Arc;

use crate::state::{NodeIdx, Nodes, ResourceIdx, SavedShares};

/// What has been tried. To be rolled back or kept; dropping it keeps it.
#[derive(Debug, Default)]
pub(crate) struct UndoLog {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    node: NodeIdx,
    demand: Arc<Vec<(ResourceIdx, i64)>>,
    pods: u32,
    /// The node's shared devices before.
    shares: SavedShares,
}

impl UndoLog {
    /// Charges so many pods of a gang to a node.
    pub(crate) fn charge(
        &mut self,
        nodes: &mut Nodes,
        node: NodeIdx,
        demand: &Arc<Vec<(ResourceIdx, i64)>>,
        pods: u32,
    ) {
        let shares = nodes.saved_shares(node, demand);
        nodes.charge(node, demand, i64::from(pods), true);
        self.entries.push(Entry {
            node,
            demand: Arc::clone(demand),
            pods,
            shares,
        });
    }

    /// Adds what was tried after it.
    pub(crate) fn append(&mut self, mut next: Self) {
        self.entries.append(&mut next.entries);
    }

    /// Takes everything back.
    pub(crate) fn roll_back(&mut self, nodes: &mut Nodes) {
        while let Some(entry) = self.entries.pop() {
            nodes.undo(entry.node, &entry.demand, entry.pods, entry.shares);
        }
    }
}
