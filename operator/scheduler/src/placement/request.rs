//! The input and the result of a search for a place.

use smallvec::SmallVec;

use crate::gang::PlacementStrategy;
use crate::state::{GangShape, NodeIdx, Nodes};

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

/// Nodes with the number of pods on each, in the order in which the search chose them.
pub(crate) type PodRuns = Vec<(NodeIdx, u32)>;

/// No place was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace {
    /// True if the search reached no bound, so there is no place.
    pub(crate) certain: bool,
}
