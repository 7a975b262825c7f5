//! Backfill: who waits for room longest in a pool of nodes gets a reservation, and
//! others start before it only where that does not make it later.
//!
//! After EASY (Lifka, "The ANL/IBM SP Scheduling System", JSSPP '95), with a place
//! beside the start. The *head* of a pool is the first gang in global order that
//! capacity blocks; further heads have pools that are disjoint from those before.
//! Its *reservation* is the earliest start and a place, if what runs ends when it
//! should. Who goes after the head may start
//!
//! - anywhere, if it ends by the start of the head; where it is only predicted to,
//!   until the head has waited for [`TRUST`];
//! - else where it leaves what the place will lack at that start;
//! - where the start is unknown, anywhere if it is preemptible, until the head has
//!   waited for [`PATIENCE`]; from then on nowhere on the nodes of the place, so that
//!   these drain.
//!
//! A head whose start is unknown starts nevertheless: what runs without known end is
//! taken to end in the order in which it was placed, and who is placed later goes
//! behind it in that order and not onto the place. So the latest gang that the
//! head waits for never becomes a later one, and all of them end some day.
//!
//! A gang that quota blocks reserves quota in the same way, and no node: see `quota`.
//!
//! Where to look: `term` says when one ends, `ends` keeps when all do, `blocked` who waits for room,
//! `plan` finds start and place, `head` says what others must do about it.

mod blocked;
mod ends;
mod head;
mod plan;
mod quota;
mod term;

pub(crate) use blocked::{Blocked, BlockedGangs, Candidate, Pool};
pub(crate) use ends::Ends;
pub(crate) use head::{Head, Restraint, Stay, pool};
pub(crate) use plan::{Leaver, Plan, Planner, in_order};
pub(crate) use quota::QuotaHead;
pub(crate) use term::{End, Term};

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{GangId, QueueName};
use crate::placement::Placement;
use crate::time::Time;

/// How long a head whose start is unknown lets preemptible gangs onto its place,
/// from its submission.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// How long a head lets others pass that are only predicted to end in time, from its
/// submission. One that takes longer than was predicted makes it later, and there
/// may always be a next one.
pub(crate) const TRUST: Duration = Duration::from_secs(86_400);

/// What is kept for the first gang in order that waits for room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The gang.
    pub gang: GangId,
    /// When it starts, if what runs ends when it should. None: something that must
    /// end before has no known end, or is past it.
    pub start: Option<Time>,
    /// Where its pods would go then.
    pub placement: Placement,
}

/// What the engine keeps for backfill.
#[derive(Debug, Default)]
pub(crate) struct Backfill {
    /// When placed gangs end.
    pub(crate) ends: Ends,
    /// The same by queue.
    pub(crate) ends_in: BTreeMap<QueueName, Ends>,
    /// When it was last looked at who is past its end.
    pub(crate) ends_at: Time,
    /// The state of queues in which these were worked out.
    pub(crate) config: u64,
    pub(crate) blocked: BlockedGangs,
    /// How nodes were chosen between when the heads were worked out.
    pub(crate) packing: u64,
    /// In global order.
    pub(crate) heads: Vec<Head>,
    /// By queue, for the first that quota blocks. To be worked out where missing.
    pub(crate) quota: BTreeMap<QueueName, QuotaHead>,
    /// The first end that those counted on which decided who is a head.
    pub(crate) quota_end: Option<Time>,
    /// The heads may be others, or their reservations may be wrong.
    pub(crate) stale: bool,
    /// Something has started since they were worked out that respects them.
    pub(crate) outdated: bool,
    /// It is only asked whether there is a place.
    pub(crate) ignored: bool,
    /// What was last told of heads.
    pub(crate) told: BTreeMap<GangId, Reservation>,
}

impl Backfill {
    /// Something has changed that can move a reservation.
    pub(crate) fn disturb(&mut self) {
        self.stale = true;
        self.quota.clear();
    }

    /// The first time at which a reservation of now is none any more: what should
    /// have ended has not.
    pub(crate) fn expires(&self) -> Option<Time> {
        let ends = self.heads.iter().filter_map(|head| head.plan.first_end);
        ends.chain(self.quota_end)
            .min()
            .map(|end| end.plus_millis(1))
    }
}
