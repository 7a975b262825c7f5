//! Upkeep and reporting of reservations.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Engine;
use super::flavor_assignment::FlavorAssignment;
use crate::backfill::{self, ExpectedEnd, HeadCandidate, Reservation, RunTerm};
use crate::decision::Decision;
use crate::gang::Gang;
use crate::ids::{GangId, QueueName};
use crate::queueing::{Blockage, OrderKey, Signal, WaitKind};
use crate::quota::{Demand, TurnOrder};
use crate::state::GangIdx;
use crate::time::Time;

impl Engine {
    /// Returns the reservation of a gang that waits for room, as of the last cycle. None: other
    /// gangs come before it, or it does not wait for room.
    #[must_use]
    pub fn reservation(&self, gang: &GangId) -> Option<Reservation> {
        self.backfill.reported.get(gang).cloned()
    }

    /// Returns all reservations by gang, as of the last cycle.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.backfill.reported.values()
    }

    /// Marks the results as stale that time alone may have changed.
    pub(super) fn check_reservations(&mut self) {
        let late = self
            .backfill
            .expires_at()
            .is_some_and(|end| end <= self.now);
        if late || self.backfill.packing_version != self.packing.version() {
            self.backfill.stale = true;
        }
        let now = self.now;
        self.backfill
            .quota_heads
            .retain(|_, head| head.first_end.is_none_or(|end| end >= now));
    }

    /// Records the end of a gang that is placed from now on.
    pub(super) fn insert_end(&mut self, at: GangIdx) {
        if let Some(keep) = self.restart_places.get(at) {
            // Its kept place becomes free at `until` at the latest.
            let (id, queue) = (keep.gang.id.clone(), keep.gang.queue.clone());
            self.insert_end_with_term(at, &id, queue, RunTerm::ending_at(keep.until));
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
        let told = placed.state().leaving_charge().map(|(_, since)| since);
        let term = RunTerm {
            stop_requested: told,
            ..self.run_term(&queue, &state.gang, placed.since)
        };
        self.insert_end_with_term(at, &id, queue, term);
    }

    pub(super) fn insert_end_with_term(
        &mut self,
        at: GangIdx,
        id: &GangId,
        queue: QueueName,
        term: RunTerm,
    ) {
        let ends = self.backfill.ends_by_queue.entry(queue).or_default();
        for ends in [ends, &mut self.backfill.ends] {
            ends.insert(at, id, term, self.now);
        }
        self.backfill.quota_heads.clear();
    }

    /// Updates the expected end of a placed gang.
    pub(super) fn update_end(&mut self, at: GangIdx) {
        self.insert_end(at);
        self.backfill.mark_stale();
        if let Some(placed) = self.gangs.placed(at) {
            // A gang that waits for reserved quota may now run for longer.
            let queue = placed.gang.queue.clone();
            self.scheduling_queue.raise(&Signal::Head(queue), 1);
        }
    }

    /// Removes the end of a gang that is no longer placed.
    pub(super) fn remove_end(&mut self, at: GangIdx, id: &GangId, queue: &QueueName) {
        if let Some(ends) = self.backfill.ends_by_queue.get_mut(queue) {
            ends.remove(at, id);
            if ends.is_empty() {
                self.backfill.ends_by_queue.remove(queue);
            }
        }
        self.backfill.ends.remove(at, id);
        self.backfill.mark_stale();
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
    pub(super) fn renew_ends(&mut self) {
        if self.backfill.config_version != self.config_version {
            self.backfill.config_version = self.config_version;
            self.backfill.ends_by_queue.clear();
            let placed: Vec<GangIdx> = self.backfill.ends.iter().map(|(_, at)| at).collect();
            for at in placed {
                self.insert_end(at);
            }
        }
        if self.backfill.ends_checked_at == self.now {
            return;
        }
        self.backfill.ends_checked_at = self.now;
        self.backfill.ends.advance(self.now);
        for ends in self.backfill.ends_by_queue.values_mut() {
            ends.advance(self.now);
        }
    }

    /// Removes a gang from the blocked gangs, because it is due again or no longer pending.
    pub(super) fn remove_blocked(&mut self, at: GangIdx) {
        let was_first = self.backfill.blocked.remove(at);
        if was_first || self.backfill.heads.iter().any(|head| head.gang_idx == at) {
            self.backfill.stale = true;
        }
        let heads = self.backfill.quota_heads.len();
        self.backfill
            .quota_heads
            .retain(|_, head| head.gang_idx != at);
        self.backfill.stale |= heads != self.backfill.quota_heads.len();
    }

    /// Records what blocks a gang, for each of its flavor assignments.
    pub(super) fn insert_blocked(&mut self, at: GangIdx, blocked: &Blockage) {
        let mut waits: SmallVec<[(WaitKind, usize); 2]> = blocked.obstacles().collect();
        waits.retain(|(phase, _)| *phase != WaitKind::Other);
        // The first assignment is the best.
        waits.sort_unstable_by_key(|(_, way)| *way);
        if waits.iter().all(|(phase, _)| *phase == WaitKind::Reserved) {
            self.remove_blocked(at);
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
            self.remove_blocked(at);
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
        if self.backfill.blocked.get(at) == Some(&now) {
            return;
        }
        self.remove_blocked(at);
        self.backfill.blocked.insert(at, now);
        for (phase, way) in waits {
            match (phase, ways.get(way)) {
                (WaitKind::Quota, _) => {
                    let quota = &mut self.backfill.quota_heads;
                    if quota.get(&gang.queue).is_none_or(|head| key < head.key) {
                        quota.remove(&gang.queue);
                        self.backfill.stale = true;
                    }
                }
                (WaitKind::Capacity, Some(way))
                    if !self.backfill.stale && !self.is_behind_head(&gang, way) =>
                {
                    self.backfill.stale = true;
                }
                _ => {}
            }
        }
    }

    fn is_behind_head(&self, gang: &Gang, way: &FlavorAssignment) -> bool {
        self.backfill.heads.iter().any(|head| {
            self.is_before(&head.gang, &head.demand, gang, &way.demand)
                && head.shares_nodes_with(&way.shape, &self.catalog, &self.nodes)
        })
    }

    /// True if a gang comes before the other gang. Surplus comes after all other gangs. In one
    /// queue, the queue order decides; between queues, their turns decide.
    pub(super) fn is_before(
        &self,
        gang: &Gang,
        demand: &Demand,
        other: &Gang,
        other_demand: &Demand,
    ) -> bool {
        if gang.surplus != other.surplus {
            return other.surplus;
        }
        if gang.queue == other.queue {
            return OrderKey::for_gang(gang) < OrderKey::for_gang(other);
        }
        let Some(queue) = self.queues.leaf(&gang.queue) else {
            return false;
        };
        let Some(other_queue) = self.queues.leaf(&other.queue) else {
            return true;
        };
        let mut order = TurnOrder::default();
        let next = self.queues.next_gang(gang, demand);
        self.queues.rank(&mut order, queue, next);
        let next = self.queues.next_gang(other, other_demand);
        self.queues.rank(&mut order, other_queue, next);
        order.first(self.queues.tree()) == Some(queue)
    }

    /// Records the start of a gang that is not charged yet. It may take room that is reserved for
    /// gangs behind it.
    pub(super) fn record_start(&mut self, at: GangIdx, gang: &Gang, way: &FlavorAssignment) {
        self.remove_blocked(at);
        self.backfill.gang_has_started = true;
        if self.backfill.stale {
            return;
        }
        let heads = &self.backfill.heads;
        let respected = heads.iter().all(|head| {
            self.is_before(&head.gang, &head.demand, gang, &way.demand)
                || !head.shares_nodes_with(&way.shape, &self.catalog, &self.nodes)
        });
        self.backfill.stale = !respected;
    }

    pub(super) fn candidate_demand(
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
    pub(super) fn report_reservations(&mut self) -> Vec<Decision> {
        let told = std::mem::take(&mut self.backfill.reported);
        let mut news = Vec::new();
        for head in &self.backfill.heads {
            let reservation = head.reservation();
            if told.get(head.id()) != Some(&reservation) {
                let Reservation {
                    gang,
                    start,
                    placement,
                } = reservation.clone();
                news.push(Decision::Reserve {
                    gang,
                    start,
                    placement,
                });
            }
            self.backfill
                .reported
                .insert(head.id().clone(), reservation);
        }
        news
    }

    /// Advances the time between cycles. Returns true if the next cycle must compute reservations
    /// again, because not every gang has been tried.
    pub(super) fn advance_between_cycles(&mut self, now: Time) -> bool {
        self.advance(now);
        self.check_reservations();
        self.wake_gangs();
        self.backfill.stale
    }
}
