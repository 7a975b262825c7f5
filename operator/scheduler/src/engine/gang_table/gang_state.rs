//! A gang and its stage.

use std::sync::Arc;

use super::super::flavor_assignment::CachedAssignments;
use super::super::provisioning::GangProvisioning;
use super::placed_gang::PlacedGang;
use crate::explain::{ReportedReason, WaitExplanation};
use crate::gang::Gang;
use crate::state::GangShape;
use crate::time::Time;

/// A gang and its stage.
#[derive(Debug)]
pub(in crate::engine) struct GangState {
    pub(in crate::engine) gang: Arc<Gang>,
    pub(in crate::engine) shape: Arc<GangShape>,
    /// None: not computed yet.
    pub(in crate::engine) assignments: Option<CachedAssignments>,
    /// The back-off of the last release.
    pub(in crate::engine) not_before: Option<Time>,
    /// True if another gang preempted it, or the engine evicted it because its queue was drained.
    pub(in crate::engine) preempted: bool,
    /// True if it has lost its place and is not tried before the caller applies it again.
    pub(in crate::engine) awaits_apply: bool,
    /// Since when it has lacked only room.
    pub(in crate::engine) short_since: Option<Time>,
    /// The nodes that are provisioned for it. None: there are none.
    pub(in crate::engine) provisioning: Option<Box<GangProvisioning>>,
    /// The reason that a cycle last reported.
    pub(in crate::engine) reported_reason: Option<ReportedReason>,
    /// Only the table changes the stage, because its indexes follow from the stages.
    pub(super) stage: GangStage,
}

/// The stage of a gang.
#[derive(Debug)]
pub(in crate::engine) enum GangStage {
    /// Pending, with the explanation of the last try.
    Pending(Option<WaitExplanation>),
    Placed(Box<PlacedGang>),
    /// The gang is deleted, but this many of its pods are still stopping. They should be gone at
    /// `by`.
    Stopping {
        pods: u32,
        by: Time,
    },
}

impl GangState {
    pub(super) fn new(gang: Arc<Gang>, shape: Arc<GangShape>, stage: GangStage) -> Self {
        Self {
            gang,
            shape,
            assignments: None,
            not_before: None,
            preempted: false,
            awaits_apply: matches!(stage, GangStage::Stopping { .. }),
            short_since: None,
            provisioning: None,
            reported_reason: None,
            stage,
        }
    }

    pub(in crate::engine) fn stage(&self) -> &GangStage {
        &self.stage
    }

    pub(in crate::engine) fn is_pending(&self) -> bool {
        matches!(self.stage, GangStage::Pending(_))
    }

    /// Returns the gang with its place, if it is placed.
    pub(in crate::engine) fn placed(&self) -> Option<&PlacedGang> {
        match &self.stage {
            GangStage::Placed(placed) => Some(placed),
            GangStage::Pending(_) | GangStage::Stopping { .. } => None,
        }
    }

    /// Returns the explanation of the last try of a pending gang.
    pub(in crate::engine) fn explanation(&self) -> Option<&WaitExplanation> {
        match &self.stage {
            GangStage::Pending(explanation) => explanation.as_ref(),
            GangStage::Placed(_) | GangStage::Stopping { .. } => None,
        }
    }

    /// Returns the earliest time at which it may start.
    pub(in crate::engine) fn earliest_start(&self) -> Option<Time> {
        self.gang.not_before.max(self.not_before)
    }
}
