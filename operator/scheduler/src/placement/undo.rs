//! Tentative charges on the live state, and the log that takes them back.

use std::sync::Arc;

use crate::state::{NodeIdx, Nodes, ResourceIdx};

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
        nodes.charge(node, demand, i64::from(pods), true);
        self.entries.push(Entry {
            node,
            demand: Arc::clone(demand),
            pods,
        });
    }

    /// Takes everything back.
    pub(crate) fn roll_back(&mut self, nodes: &mut Nodes) {
        while let Some(Entry { node, demand, pods }) = self.entries.pop() {
            nodes.charge(node, &demand, i64::from(pods).saturating_neg(), true);
        }
    }
}
