//! The facts about a placed gang that preemptors read.

use std::time::Duration;

use smallvec::SmallVec;

use super::placed_gang::{NodeUsage, PlacedGang};
use crate::ids::GangId;
use crate::preemption::lost_work::Stake;
use crate::preemption::policy::PreemptionFacts;
use crate::state::KnownPods;
use crate::time::Time;

/// The facts about a gang that is placed and neither nominated nor leaving.
#[derive(Debug)]
pub(in crate::engine) struct PlacedGangFacts {
    pub(in crate::engine) id: GangId,
    pub(in crate::engine) terms: PreemptionFacts,
    pub(in crate::engine) stake: Stake,
    min_runtime: Duration,
    protected: Option<Time>,
    /// Usage by its pods, node by node.
    pub(in crate::engine) parts: SmallVec<[NodeUsage; 1]>,
}

impl PlacedGangFacts {
    /// Collects the current facts.
    pub(in crate::engine) fn from_placed(placed: &PlacedGang, pods: &KnownPods) -> Self {
        Self {
            id: placed.gang.id.clone(),
            terms: PreemptionFacts::from_gang(&placed.gang),
            stake: placed.stake(),
            min_runtime: placed.gang.min_runtime,
            protected: placed.protected_until,
            parts: placed.node_usages(pods),
        }
    }

    /// Returns the end of the gang's protection, in a queue that protects gangs for at most `cap`.
    /// Surplus has no minimum runtime.
    pub(in crate::engine) fn protected_until(&self, cap: Option<Duration>) -> Option<Time> {
        if self.terms.surplus {
            return self.protected;
        }
        let safe = cap.map_or(self.min_runtime, |cap| self.min_runtime.min(cap));
        let by_runtime = (!safe.is_zero()).then(|| self.stake.since.plus(safe));
        by_runtime.max(self.protected)
    }
}
