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
//!   waited for `PREDICTION_TRUST`;
//! - otherwise, if it leaves free the room that the placement will lack at that start;
//! - if the start is unknown: anywhere if the gang is preemptible, until the head has waited for
//!   `UNKNOWN_START_PATIENCE`. From then on only outside the nodes of the placement, so that
//!   these become free.
//!
//! A head with an unknown start does start in the end. The engine assumes an order for gangs
//! without a known end: they end in the order of their placement. Gangs that are placed later come
//! last in that order, and do not use the nodes of the placement. So the last gang that the head
//! waits for never changes to a later one, and all these gangs end at some time.
//!
//! A gang that lacks quota reserves quota in the same way, but no nodes: see `quota_head`.
//!
//! Where to look: `run_term` has the end of one gang, `expected_ends` orders gangs by their ends,
//! and `end_table` has the ends of all gangs. `blocked` has the gangs that wait for room, `plan`
//! finds start and placement, and `head` has the restrictions on gangs behind a head. The
//! `reservation_table` has all heads, and knows when they must be computed again.

mod blocked;
mod end_table;
mod expected_ends;
mod head;
mod plan;
mod quota_head;
mod reservation_table;
mod run_term;

pub(crate) use blocked::{BlockedGang, HeadCandidate, NodePool};
pub use head::Reservation;
pub(crate) use head::{BackfillCandidate, Head, Restriction, usable_nodes};
pub(crate) use plan::{Departure, Planner, merge_by_end};
pub(crate) use quota_head::QuotaHead;
pub(crate) use reservation_table::{QuotaHeadsAside, ReservationTable};
pub(crate) use run_term::{ExpectedEnd, RunTerm};
