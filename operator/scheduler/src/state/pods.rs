//! Pods that have been seen.

use std::collections::HashMap;

use super::{DemandIdx, NodeIdx};
use crate::ids::PodKey;

/// A pod on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) node: NodeIdx,
    pub(crate) demand: DemandIdx,
    /// It is one of a gang that has its place.
    pub(crate) held: bool,
}

/// By name. The standard hasher, since users choose the names.
pub(crate) type Pods = HashMap<PodKey, Pod>;
