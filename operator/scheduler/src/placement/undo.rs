//! Tentative charges on the live state, and the log that undoes them.

use std::sync::Arc;

use crate::state::{NodeIdx, Nodes, ResourceIdx, SavedShares};

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

/// The tentative charges so far. A rollback undoes them; dropping the log keeps them.
#[derive(Debug, Default)]
pub(crate) struct UndoLog {
    entries: Vec<UndoEntry>,
}

#[derive(Debug)]
struct UndoEntry {
    node: NodeIdx,
    demand: Arc<Vec<(ResourceIdx, i64)>>,
    /// Negative if the pods were taken off the node.
    pods: i64,
    in_placed_gang: bool,
    /// The node's shared devices before the charge.
    shares: SavedShares,
}

impl UndoLog {
    /// Charges `pods` pods of a gang to a node.
    pub(crate) fn charge(
        &mut self,
        nodes: &mut Nodes,
        node: NodeIdx,
        demand: &Arc<Vec<(ResourceIdx, i64)>>,
        pods: u32,
    ) {
        self.apply_change(nodes, node, demand, i64::from(pods), true);
    }

    /// Takes pods off their node.
    pub(crate) fn uncharge(&mut self, nodes: &mut Nodes, hold: &NodeCharge) {
        let times = i64::from(hold.pods).saturating_neg();
        self.apply_change(nodes, hold.node, &hold.demand, times, hold.in_placed_gang);
    }

    fn apply_change(
        &mut self,
        nodes: &mut Nodes,
        node: NodeIdx,
        demand: &Arc<Vec<(ResourceIdx, i64)>>,
        pods: i64,
        held: bool,
    ) {
        let shares = nodes.saved_shares(node, demand);
        nodes.charge(node, demand, pods, held);
        self.entries.push(UndoEntry {
            node,
            demand: Arc::clone(demand),
            pods,
            in_placed_gang: held,
            shares,
        });
    }

    /// Appends the charges of a later log.
    pub(crate) fn append(&mut self, mut next: Self) {
        self.entries.append(&mut next.entries);
    }

    /// Undoes all charges.
    pub(crate) fn roll_back(&mut self, nodes: &mut Nodes) {
        while let Some(entry) = self.entries.pop() {
            let UndoEntry {
                pods,
                in_placed_gang: held,
                ..
            } = entry;
            nodes.undo(entry.node, &entry.demand, (pods, held), entry.shares);
        }
    }
}
