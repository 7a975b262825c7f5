//! The flavor assignments of a gang.

use std::sync::Arc;

use crate::queueing::{FlavorChoice, NoFlavorAssignment};
use crate::quota::Demand;
use crate::state::GangShape;

/// A flavor assignment of a gang, with the shape and demand that follow from it.
#[derive(Clone, Debug)]
pub(in crate::engine) struct FlavorAssignment {
    /// The shape with the constraints of the flavors.
    pub(in crate::engine) shape: Arc<GangShape>,
    pub(in crate::engine) demand: Demand,
    /// The flavors by task group.
    pub(in crate::engine) choices: Vec<FlavorChoice>,
    /// True if the assignment has its own shape in the catalog and must release it.
    pub(super) owns_shape: bool,
}

/// The flavor assignments of a gang, the best first, or why it has none.
pub(in crate::engine) type AssignmentResult = Result<Arc<FlavorAssignments>, NoFlavorAssignment>;

/// Flavor assignments, the best first.
#[derive(Debug, Default)]
pub(in crate::engine) struct FlavorAssignments {
    pub(super) assignments: Vec<FlavorAssignment>,
    /// Set if there are too many to try them all: choices that can never work were dropped, as of
    /// these versions of the nodes.
    pub(in crate::engine) thinned: Option<(u64, u64)>,
    /// True if there are more assignments that the engine does not try.
    pub(in crate::engine) truncated: bool,
}

impl std::ops::Deref for FlavorAssignments {
    type Target = [FlavorAssignment];

    fn deref(&self) -> &[FlavorAssignment] {
        &self.assignments
    }
}

/// The flavor assignments of a gang, as of some version of queues and flavors.
#[derive(Debug)]
pub(in crate::engine) struct CachedAssignments {
    pub(in crate::engine) version: u64,
    pub(in crate::engine) assignments: AssignmentResult,
}

impl FlavorAssignment {
    /// Returns the assignment of a gang that already holds its charge.
    pub(in crate::engine) fn from_charge(
        shape: Arc<GangShape>,
        demand: Demand,
        choices: Vec<FlavorChoice>,
    ) -> Self {
        Self {
            shape,
            demand,
            choices,
            owns_shape: false,
        }
    }
}
