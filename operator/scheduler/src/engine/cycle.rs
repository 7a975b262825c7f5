//! The scheduling cycle, from top to bottom.
//!
//! 1. The engine advances to the new time. Kept places, reservations and back-offs end.
//! 2. Gangs of drained queues begin to leave. Nominated gangs whose victims have left start.
//! 3. Queues with due gangs take turns. At its turn a queue's first due gang starts, nominates
//!    victims, or is blocked until a change may let it start.
//! 4. The cycle reports new reservations, and new reasons of the gangs that it has blocked.
//!
//! `turns` ranks the queues, `admission` decides about a gang, `gang_start` starts it, and
//! `withdrawal` takes back a start for a gang that would preempt it. `cycle_log` has the decisions
//! so far, and `cycle_placements` the starts that the cycle may still take back.

mod cycle_log;
mod cycle_placements;
mod gang_start;
mod turns;
mod withdrawal;

pub(super) use cycle_log::CycleLog;
pub(super) use cycle_placements::CyclePlacements;

use super::Engine;
use super::admission::GangStart;
use crate::decision::Decision;
use crate::ids::QueueName;
use crate::placement::UndoLog;
use crate::queueing::GangClass;
use crate::quota::TurnOrder;
use crate::state::GangIdx;
use crate::time::Time;

impl Engine {
    /// Decides about every gang that a change may affect, until no more gangs can start. Queues
    /// take turns by how far up the tree they must borrow, then by past usage divided by weight,
    /// then by the age of their next gang. Within a queue the order is priority, submission and
    /// name. A gang that cannot start does not block the gangs behind it, unless its queue is
    /// strict. Surplus starts only when no other gang can start, in the same order.
    ///
    /// A gang does not start if the same cycle would preempt it for another gang.
    ///
    /// The result lists first the gangs that start, in that order, then the gangs whose reason to
    /// wait differs from the last reported one. Without changes a cycle costs nothing, even with
    /// many pending gangs.
    pub fn cycle(&mut self, now: Time) -> Vec<Decision> {
        let mut log = CycleLog::default();
        self.advance(now);
        self.measure_capacity();
        log.extend(self.expire_provisioning());
        self.expire_kept_places();
        self.check_reservations();
        self.scheduling_queue.fire_alarms(self.now);

        log.extend(self.evict_drained());
        log.extend(self.settle_nominations());

        self.wake_gangs();
        self.release_places_of_later_gangs();
        self.try_due_gangs(&mut log);
        loop {
            let ended = self.end_uncounted_provisioning();
            if ended.is_empty() {
                break;
            }
            log.extend(ended);
            self.try_due_gangs(&mut log);
        }
        self.cycle_placements = CyclePlacements::default();

        log.extend(self.report_reservations());
        let tried = log.take_tried();
        log.extend(tried.filter_map(|at| self.wait_decision(at)));
        log.into_decisions()
    }

    /// Updates the capacity of the nodes, in which the queues measure their shares.
    fn measure_capacity(&mut self) {
        let Some(totals) = self.nodes.take_changed_totals() else {
            return;
        };
        for (resource, total) in totals {
            self.queues.set_capacity(resource, total);
        }
    }

    /// Tries due gangs until no gang is due.
    fn try_due_gangs(&mut self, log: &mut CycleLog) {
        loop {
            // A start in this loop can wake a gang, but only to give it another reason to wait.
            self.wake_gangs();
            // A gang that has lost its reservation may have kept other gangs from starting. Those
            // gangs take their turns together with the rest. Otherwise a gang that starts now might
            // have to leave for them.
            if !self.reservations.is_settled() && self.renew_heads() {
                continue;
            }
            let Some((class, queues)) = self.due_queues() else {
                return;
            };
            self.take_turns(class, queues, log);
        }
    }

    /// Returns the queues with due gangs. Surplus gets only the room that all other gangs leave, so
    /// it is due only if no other gang is.
    fn due_queues(&self) -> Option<(GangClass, Vec<QueueName>)> {
        let classes = [GangClass::Gangs, GangClass::Surplus].into_iter();
        let mut due = classes.map(|class| (class, self.scheduling_queue.due_queues(class)));
        due.find(|(_, queues)| !queues.is_empty())
    }

    /// Tries all due gangs of these queues. The queues take turns.
    fn take_turns(&mut self, class: GangClass, due: Vec<QueueName>, log: &mut CycleLog) {
        let mut order = TurnOrder::default();
        let alone = due.len() == 1;
        if !alone {
            self.skip_blocked((class, &due), log);
        }
        for name in due {
            if alone || !self.rank_queue(&mut order, (class, &name), log) {
                // No other queue competes, or none of this queue's gangs can start.
                while let Some(at) = self.scheduling_queue.pop_due(class, &name) {
                    let decision = self.decide_gang(at, log);
                    self.drop_withdrawn(log);
                    log.extend(decision);
                }
            }
        }
        // Each turn changes shares, and so the order of the queues that still compete.
        while let Some(queue) = order.first(self.queues.tree()) {
            let Some(name) = self.queues.tree().name(queue).cloned() else {
                return;
            };
            let next = self.scheduling_queue.pop_due(class, &name);
            let decision = next.and_then(|at| self.decide_gang(at, log));
            if decision.is_some() {
                order.update_shares(self.queues.tree(), queue);
            }
            for other in self.drop_withdrawn(log) {
                if let Some(queue) = self.queues.leaf(&other) {
                    order.update_shares(self.queues.tree(), queue);
                    if !self.rank_queue(&mut order, (class, &other), log) {
                        order.remove(self.queues.tree(), queue);
                    }
                }
            }
            log.extend(decision);
            if !self.rank_queue(&mut order, (class, &name), log) {
                order.remove(self.queues.tree(), queue);
            }
        }
    }

    /// Starts a gang, makes its victims leave, provisions nodes for it, or blocks it. While the
    /// engine tries the gang, the place that is kept for it counts as free.
    fn decide_gang(&mut self, at: GangIdx, log: &mut CycleLog) -> Option<Decision> {
        let lifted = self.lift_place(at);
        let mut charges = UndoLog::default();
        match self.try_to_admit(at, &mut charges) {
            Some(Ok(GangStart::Immediate(way, groups))) => self.start_now(at, lifted, &way, groups),
            Some(Ok(GangStart::AfterVictims(plan))) => {
                self.put_back_place(lifted);
                self.carry_out_plan(at, *plan)
            }
            Some(Ok(GangStart::AfterNodes(plan))) => self.provision(at, lifted, *plan, log),
            Some(Err(blocked)) => {
                self.put_back_place(lifted);
                self.block_gang(at, blocked, log);
                None
            }
            None => {
                self.put_back_place(lifted);
                None
            }
        }
    }

    /// Returns the decision to wait, if the reason or the obstacle to new nodes differs from the last
    /// reported one.
    fn wait_decision(&mut self, at: GangIdx) -> Option<Decision> {
        let state = self.gangs.get_mut(at)?;
        let explanation = state.explanation()?.clone();
        let reported = Some(explanation.reported());
        if state.reported_reason == reported {
            return None;
        }
        state.reported_reason = reported;
        Some(Decision::Wait {
            gang: state.gang.id.clone(),
            explanation,
        })
    }
}
