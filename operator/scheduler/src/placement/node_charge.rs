//! Usage of a node by pods.

use std::sync::Arc;

use crate::state::{NodeIdx, ResourceIdx};

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
