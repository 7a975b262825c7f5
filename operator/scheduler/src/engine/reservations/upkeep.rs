//! Upkeep and reporting of reservations.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::super::Engine;
use super::super::flavor_assignment::FlavorAssignment;
use crate::backfill::{self, ExpectedEnd, HeadCandidate, Reservation, RunTerm};
use crate::decision::Decision;
use crate::gang::Gang;
use crate::ids::{GangId, QueueName};
use crate::queueing::{Blockage, OrderKey, Signal, WaitKind};
use crate::quota::Demand;
use crate::state::GangIdx;
use crate::time::Time;

impl Engine {
    /// Returns the reservation of a gang that waits for room, as of the last cycle. None: other
    /// gangs come before it, or it does not wait for room.
    #[must_use]
    pub fn reservation(&self, gang: &GangId) -> Option<Reservation> {
        self.reservations.reported().get(gang).cloned()
    }

    /// Returns all reservations by gang, as of the last cycle.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.reservations.reported().values()
    }

    /// Marks the results as stale that time alone may have changed.
    pub(in crate::engine) fn check_reservations(&mut self) {
        self.reservations.check(self.now, self.packing.version());
    }

    /// Records the end of a gang that is placed from now on.
    pub(in crate::engine) fn insert_end(&mut self, at: GangIdx) {
        if let Some(keep) = self.kept_places.get(at) {
            // Its kept place becomes free at `until` at the latest.
            let (id, queue) = (keep.gang.id.clone(), keep.gang.queue.clone());
            let term = RunTerm::ending_at(keep.until);
            self.reservations.insert_end(at, &id, queue, term, self.now);
            return;
        }
        let Some(state) = self.gangs.get(at) else {
            return;
        };
        let Some(placed) = state.placed() else {
            return;
        };
        let (id, queue) = (placed.gang.id.clone(), placed.gang.queue.clone());
        // Take the current runtime, but the queue that the gang was placed from.
        let requested_at = placed.state().leaving_charge().map(|(_, since)| since);
        let term = RunTerm {
            stop_requested: requested_at,
            ..self.run_term(&queue, &state.gang, placed.since)
        };
        self.reservations.insert_end(at, &id, queue, term, self.now);
    }

    /// Updates the expected end of a placed gang.
    pub(in crate::engine) fn update_end(&mut self, at: GangIdx) {
        self.insert_end(at);
        self.reservations.mark_stale();
        if let Some(placed) = self.gangs.placed(at) {
            // A gang that waits for reserved quota may now run for longer.
            let queue = placed.gang.queue.clone();
            self.scheduling_queue.raise(&Signal::Head(queue), 1);
        }
    }

    /// Returns the end of a gang that has been placed since `since`, as of `now`.
    pub(crate) fn expected_end(&self, gang: &Gang, since: Time, now: Time) -> Option<ExpectedEnd> {
        self.run_term(&gang.queue, gang, since).end(now)
    }

    /// Returns the runtime that the administrator configured for gangs of a queue without one of
    /// their own.
    #[must_use]
    pub fn default_runtime(&self, queue: &QueueName) -> Option<Duration> {
        self.queues.config(queue)?.default_runtime
    }

    fn run_term(&self, queue: &QueueName, gang: &Gang, since: Time) -> RunTerm {
        let unknown = gang.runtime.is_none() && gang.predicted.is_none();
        let default = unknown.then(|| self.default_runtime(queue)).flatten();
        RunTerm {
            since,
            limit: gang.runtime,
            predicted: gang.predicted.or(default),
            grace: gang.grace,
            stop_requested: None,
        }
    }

    /// Updates the ends to the current queue configuration and time.
    pub(in crate::engine) fn renew_ends(&mut self) {
        let outdated = self
            .reservations
            .ends_mut()
            .start_version(self.queues.config_version());
        for at in outdated {
            self.insert_end(at);
        }
        self.reservations.ends_mut().advance(self.now);
    }

    /// Records what blocks a gang, for each of its flavor assignments.
    pub(in crate::engine) fn insert_blocked(&mut self, at: GangIdx, blocked: &Blockage) {
        let mut waits: SmallVec<[(WaitKind, usize); 2]> = blocked.obstacles().collect();
        waits.retain(|(phase, _)| *phase != WaitKind::Other);
        // The first assignment is the best.
        waits.sort_unstable_by_key(|(_, way)| *way);
        if waits.iter().all(|(phase, _)| *phase == WaitKind::Reserved) {
            self.reservations.remove_blocked(at);
            return;
        }
        let Some(Ok(ways)) = self.assignments(at) else {
            return;
        };
        let Some(gang) = self.gangs.get(at).map(|state| Arc::clone(&state.gang)) else {
            return;
        };
        if gang.surplus {
            // Surplus gets no reservation.
            self.reservations.remove_blocked(at);
            return;
        }
        let key = OrderKey::for_gang(&gang);
        let mut now = backfill::BlockedGang::new(&gang.queue, key.clone());
        for (phase, way) in &waits {
            if let Some(chosen) = ways.get(*way) {
                now.add(*phase, *way, &chosen.shape);
            }
        }
        // A gang that may not evict victims on reserved nodes also waits for a reservation.
        now.waits_for_reservation |=
            waits.len() > 1 && blocked.wake.waits_for(&Signal::Reservations);
        if !self.reservations.insert_blocked(at, now) {
            return;
        }
        for (phase, way) in waits {
            match (phase, ways.get(way)) {
                (WaitKind::Quota, _) => self.reservations.note_quota_wait(&gang.queue, &key),
                (WaitKind::Capacity, Some(way))
                    if !self.reservations.is_stale() && !self.is_behind_head(&gang, way) =>
                {
                    self.reservations.mark_heads_stale();
                }
                _ => {}
            }
        }
    }

    fn is_behind_head(&self, gang: &Gang, way: &FlavorAssignment) -> bool {
        self.reservations.heads().iter().any(|head| {
            self.queues
                .is_before(&head.gang, &head.demand, gang, &way.demand)
                && head.shares_nodes_with(&way.shape, &self.catalog, &self.nodes)
        })
    }

    /// Records the start of a gang that is not charged yet. It may take room that is reserved for
    /// gangs behind it.
    pub(in crate::engine) fn record_start(
        &mut self,
        at: GangIdx,
        gang: &Gang,
        way: &FlavorAssignment,
    ) {
        self.reservations.remove_blocked(at);
        let respects = !self.reservations.is_stale()
            && self.reservations.heads().iter().all(|head| {
                self.queues
                    .is_before(&head.gang, &head.demand, gang, &way.demand)
                    || !head.shares_nodes_with(&way.shape, &self.catalog, &self.nodes)
            });
        self.reservations.note_start(respects);
    }

    pub(in crate::engine) fn candidate_demand(
        &mut self,
        candidate: HeadCandidate,
    ) -> Option<(Arc<Gang>, Demand)> {
        let Ok(ways) = self.assignments(candidate.gang)? else {
            return None;
        };
        let demand = ways.get(candidate.assignment)?.demand.clone();
        Some((Arc::clone(&self.gangs.get(candidate.gang)?.gang), demand))
    }

    /// Returns decisions for heads that are new or whose reservation has changed since the last
    /// report.
    pub(in crate::engine) fn report_reservations(&mut self) -> Vec<Decision> {
        let news = self.reservations.report().into_iter();
        let decisions = news.map(|reservation| {
            let Reservation {
                gang,
                start,
                placement,
            } = reservation;
            Decision::Reserve {
                gang,
                start,
                placement,
            }
        });
        decisions.collect()
    }

    /// Advances the time between cycles. Returns true if the next cycle must compute reservations
    /// again, because not every gang has been tried.
    pub(in crate::engine) fn advance_between_cycles(&mut self, now: Time) -> bool {
        self.advance(now);
        self.check_reservations();
        self.wake_gangs();
        self.reservations.is_stale()
    }
}
