//! The facts about a placed gang that preemptors read.

use std::time::Duration;

use smallvec::SmallVec;

use super::super::placed::{Part, Placed};
use crate::ids::GangId;
use crate::preemption::policy::Terms;
use crate::preemption::price::Stake;
use crate::state::Pods;
use crate::time::Time;

/// The facts about a gang that is placed and neither nominated nor leaving.
#[derive(Debug)]
pub(in crate::engine) struct Card {
    pub(in crate::engine) id: GangId,
    pub(super) terms: Terms,
    pub(super) stake: Stake,
    min_runtime: Duration,
    protected: Option<Time>,
    /// Usage by its pods, node by node.
    pub(super) parts: SmallVec<[Part; 1]>,
}

impl Card {
    /// The facts as of now.
    pub(in crate::engine) fn of(placed: &Placed, pods: &Pods) -> Self {
        Self {
            id: placed.gang.id.clone(),
            terms: Terms::of(&placed.gang),
            stake: placed.stake(),
            min_runtime: placed.gang.min_runtime,
            protected: placed.protected,
            parts: placed.parts(pods),
        }
    }

    /// Until when the gang is protected, in a queue that protects no gang for longer than `cap`.
    /// Surplus has no minimum runtime.
    pub(super) fn safe_until(&self, cap: Option<Duration>) -> Option<Time> {
        if self.terms.surplus {
            return self.protected;
        }
        let safe = cap.map_or(self.min_runtime, |cap| self.min_runtime.min(cap));
        let by_runtime = (!safe.is_zero()).then(|| self.stake.since.plus(safe));
        by_runtime.max(self.protected)
    }
}
