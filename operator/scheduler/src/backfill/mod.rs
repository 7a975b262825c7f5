//! Backfill: the gang that has waited longest for room in a pool of nodes gets a reservation, and
//! other gangs start ahead of it only if that does not delay it.
//!
//! The rule is EASY (Lifka, "The ANL/IBM SP Scheduling System", JSSPP '95), which also reserves
//! nodes here. The *head* of a pool is the first gang in global order that lacks capacity; further
//! heads have pools that are disjoint from those before. Its *reservation* is the earliest start
//! and a placement, assuming that running gangs end on time. A gang behind the head may start
//!
//! - anywhere, if it ends by the start of the head; if that end is only predicted, until the head
//!   has waited for [`PREDICTION_TRUST`];
//! - otherwise if it leaves what the placement will lack at that start;
//! - if the start is unknown, anywhere if it is preemptible, until the head has waited for
//!   [`UNKNOWN_START_PATIENCE`]; from then on nowhere on the nodes of the placement, so that these drain.
//!
//! A head whose start is unknown does start in the end. Gangs without a known end are assumed to
//! end in the order in which they were placed. Gangs that are placed later come last in that order
//! and stay off the placement. So the last gang that the head waits for never changes to a later
//! one, and all of them end some day.
//!
//! A gang that lacks quota reserves quota in the same way, but no nodes: see `quota`.
//!
//! Where to look: `term` has the end of one gang and `ends` those of all, `blocked` the gangs that
//! wait for room, `plan` finds start and placement, and `head` has what gangs behind a head must
//! respect.

mod blocked;
mod expected_ends;
mod head;
mod plan;
mod quota_head;
mod run_term;

pub(crate) use blocked::{BlockedGang, BlockedGangs, HeadCandidate, NodePool};
pub(crate) use expected_ends::ExpectedEnds;
pub(crate) use head::{BackfillCandidate, Head, Restriction, usable_nodes};
pub(crate) use plan::{Departure, Planner, StartPlan, merge_by_end};
pub(crate) use quota_head::QuotaHead;
pub(crate) use run_term::{ExpectedEnd, RunTerm};

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{GangId, QueueName};
use crate::placement::Placement;
use crate::time::Time;

/// How long a head whose start is unknown lets preemptible gangs onto its nodes, from its
/// submission.
pub(crate) const UNKNOWN_START_PATIENCE: Duration = Duration::from_secs(600);

/// How long a head lets gangs pass that are only predicted to end in time, from its submission. A
/// gang that takes longer than predicted delays the head, and there may always be a next one.
pub(crate) const PREDICTION_TRUST: Duration = Duration::from_secs(86_400);

/// The reservation of the first gang in order that waits for room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The gang.
    pub gang: GangId,
    /// When the gang starts if running gangs end on time. None: a gang that must end first has no
    /// known end, or is past it.
    pub start: Option<Time>,
    /// Where its pods would go at that time.
    pub placement: Placement,
}

/// The state that the engine keeps for backfill.
#[derive(Debug, Default)]
pub(crate) struct BackfillState {
    /// When placed gangs end.
    pub(crate) ends: ExpectedEnds,
    /// When placed gangs end, by queue.
    pub(crate) ends_by_queue: BTreeMap<QueueName, ExpectedEnds>,
    /// When ends were last checked for gangs that are past them.
    pub(crate) ends_checked_at: Time,
    /// The version of the queue configuration that `ends` and `ends_in` were computed with.
    pub(crate) config_version: u64,
    pub(crate) blocked: BlockedGangs,
    /// The version of packing that the heads were computed with.
    pub(crate) packing_version: u64,
    /// The heads, in global order.
    pub(crate) heads: Vec<Head>,
    /// The first gang of each queue that lacks quota. Missing entries are still to be computed.
    pub(crate) quota_heads: BTreeMap<QueueName, QuotaHead>,
    /// The first end that the choice of heads relied on.
    pub(crate) first_quota_end: Option<Time>,
    /// The heads or their reservations may have changed.
    pub(crate) stale: bool,
    /// A gang has started since the heads were computed, and respects them.
    pub(crate) gang_has_started: bool,
    /// Reservations are ignored: the caller only asks if there is room.
    pub(crate) ignores_reservations: bool,
    /// The reservations that were last reported.
    pub(crate) reported: BTreeMap<GangId, Reservation>,
}

impl BackfillState {
    /// Something has changed that may move a reservation.
    pub(crate) fn mark_stale(&mut self) {
        self.stale = true;
        self.quota_heads.clear();
    }

    /// The first time at which a current reservation becomes invalid, because a gang that should
    /// have ended has not.
    pub(crate) fn expires_at(&self) -> Option<Time> {
        let ends = self.heads.iter().filter_map(|head| head.plan.first_end);
        ends.chain(self.first_quota_end)
            .min()
            .map(|end| end.plus_millis(1))
    }
}
