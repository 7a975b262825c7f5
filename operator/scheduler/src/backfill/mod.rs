//! Backfill: the first gang in order that waits for room in a pool of nodes gets a reservation.
//! Other gangs start ahead of it only if that does not delay it.
//!
//! The rule is EASY (Lifka, "The ANL/IBM SP Scheduling System", JSSPP '95), extended here by a
//! reservation of nodes. The *head* of a pool is the first gang in global order that lacks
//! capacity. The pools of further heads are disjoint from those before. The *reservation* of a head
//! is its earliest start and a placement, if running gangs end on time. A gang behind the head may
//! start
//!
//! - anywhere, if it ends by the start of the head; a predicted end counts only until the head has
//!   waited for [`PREDICTION_TRUST`];
//! - otherwise, if it leaves free the room that the placement will lack at that start;
//! - if the start is unknown: anywhere if the gang is preemptible, until the head has waited for
//!   [`UNKNOWN_START_PATIENCE`]. From then on only outside the nodes of the placement, so that
//!   these become free.
//!
//! A head with an unknown start does start in the end. The engine assumes an order for gangs
//! without a known end: they end in the order of their placement. Gangs that are placed later come
//! last in that order, and do not use the nodes of the placement. So the last gang that the head
//! waits for never changes to a later one, and all these gangs end at some time.
//!
//! A gang that lacks quota reserves quota in the same way, but no nodes: see `quota_head`.
//!
//! Where to look: `run_term` has the end of one gang and `expected_ends` the ends of all gangs.
//! `blocked` has the gangs that wait for room, `plan` finds start and placement, and `head` has the
//! restrictions on gangs behind a head.

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

/// How long, from its submission, a head with an unknown start lets preemptible gangs use its
/// nodes.
pub(crate) const UNKNOWN_START_PATIENCE: Duration = Duration::from_secs(600);

/// How long, from its submission, a head lets gangs pass whose end in time is only a prediction. A
/// gang that exceeds its prediction delays the head, and without this bound such delays could go on
/// for ever.
pub(crate) const PREDICTION_TRUST: Duration = Duration::from_secs(86_400);

/// The reservation of the first gang in order that waits for room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The gang.
    pub gang: GangId,
    /// When the gang starts if running gangs end on time. None: a gang that must end first has no
    /// known end, or is past its end.
    pub start: Option<Time>,
    /// Where its pods would go at that time.
    pub placement: Placement,
}

/// The state that the engine keeps for backfill.
#[derive(Debug, Default)]
pub(crate) struct BackfillState {
    /// The expected ends of placed gangs.
    pub(crate) ends: ExpectedEnds,
    /// The expected ends of placed gangs, by queue.
    pub(crate) ends_by_queue: BTreeMap<QueueName, ExpectedEnds>,
    /// When the engine last checked for gangs that are past their end.
    pub(crate) ends_checked_at: Time,
    /// The version of the queue configuration for which `ends` and `ends_by_queue` are valid.
    pub(crate) config_version: u64,
    pub(crate) blocked: BlockedGangs,
    /// The version of packing for which the heads are valid.
    pub(crate) packing_version: u64,
    /// The heads, in global order.
    pub(crate) heads: Vec<Head>,
    /// The first gang of each queue that lacks quota. Missing entries are not computed yet.
    pub(crate) quota_heads: BTreeMap<QueueName, QuotaHead>,
    /// The first end that the choice of heads relied on.
    pub(crate) first_quota_end: Option<Time>,
    /// True if the heads or their reservations may have changed.
    pub(crate) stale: bool,
    /// True if a gang has started since the engine computed the heads. The gang respects the heads.
    pub(crate) gang_has_started: bool,
    /// True if the engine ignores reservations: the caller only queries if there is room.
    pub(crate) ignores_reservations: bool,
    /// The reservations that the engine last reported.
    pub(crate) reported: BTreeMap<GangId, Reservation>,
}

impl BackfillState {
    /// Records a change that may move a reservation.
    pub(crate) fn mark_stale(&mut self) {
        self.stale = true;
        self.quota_heads.clear();
    }

    /// Returns the first time at which a current reservation becomes invalid if a gang has not
    /// ended on time.
    pub(crate) fn expires_at(&self) -> Option<Time> {
        let ends = self.heads.iter().filter_map(|head| head.plan.first_end);
        ends.chain(self.first_quota_end)
            .min()
            .map(|end| end.plus_millis(1))
    }
}
