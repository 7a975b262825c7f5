//! The scheduling cycle.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::admission::GangStart;
use super::flavor_assignment::FlavorAssignment;
use super::preempt::PlannedVictim;
use super::restart_places::LiftedPlace;
use super::withdrawal::CyclePlacements;
use super::{Engine, gang_table};
use crate::decision::{Decision, PlacementScore};
use crate::gang::Gang;
use crate::ids::QueueName;
use crate::placement::{PodRuns, UndoLog};
use crate::queueing::{GangClass, OrderKey, Signal};
use crate::quota::{Demand, NextGang, TurnOrder};
use crate::state::{GangIdx, GangShape, NodeIdx, ResourceIdx};
use crate::time::Time;

/// The gangs that a cycle has tried, in order.
pub(super) type TriedGangs = BTreeSet<(OrderKey, GangIdx)>;

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
        let mut decisions = Vec::new();
        let mut looked_at = BTreeSet::new();
        self.advance(now);
        // The engine's time never goes back.
        let now = self.now;
        self.measure_capacity();
        self.expire_restart_places();
        self.check_reservations();
        self.scheduling_queue.fire_alarms(now);
        decisions.extend(self.evict_drained());
        decisions.extend(self.settle_nominations());
        loop {
            // A start in this loop can wake a gang, but only to give it another reason to wait.
            self.wake_gangs();
            // A gang that has lost its reservation may have kept other gangs from starting. Those
            // gangs take their turns together with the rest. Otherwise a gang that starts now might
            // have to leave for them.
            if !self.reservations.is_settled() && self.renew_heads() {
                continue;
            }
            let due = self.scheduling_queue.due_queues(GangClass::Gangs);
            if !due.is_empty() {
                let due = (GangClass::Gangs, due);
                self.take_turns(due, now, &mut decisions, &mut looked_at);
                continue;
            }
            // All other gangs have had their turn, so the rest is free for surplus.
            let due = self.scheduling_queue.due_queues(GangClass::Surplus);
            if due.is_empty() {
                break;
            }
            let due = (GangClass::Surplus, due);
            self.take_turns(due, now, &mut decisions, &mut looked_at);
        }
        self.cycle_placements = CyclePlacements::default();
        decisions.extend(self.report_reservations());
        decisions.extend(
            looked_at
                .into_iter()
                .filter_map(|(_, at)| self.wait_decision(at)),
        );
        decisions
    }

    /// Tries all due gangs of these queues. The queues take turns.
    fn take_turns(
        &mut self,
        (class, due): (GangClass, Vec<QueueName>),
        now: Time,
        decisions: &mut Vec<Decision>,
        looked_at: &mut TriedGangs,
    ) {
        let mut order = TurnOrder::default();
        let alone = due.len() == 1;
        if !alone {
            self.skip_blocked((class, &due), now, looked_at);
        }
        for name in due {
            if alone || !self.rank_queue(&mut order, (class, &name), now, looked_at) {
                // No other queue competes, or none of this queue's gangs can start.
                while let Some(at) = self.scheduling_queue.pop_due(class, &name) {
                    let decision = self.decide_gang(at, now, looked_at);
                    self.drop_withdrawn(decisions);
                    decisions.extend(decision);
                }
            }
        }
        while let Some(queue) = order.first(self.queues.tree()) {
            let Some(name) = self.queues.tree().name(queue).cloned() else {
                return;
            };
            let decision = self
                .scheduling_queue
                .pop_due(class, &name)
                .and_then(|at| self.decide_gang(at, now, looked_at));
            if decision.is_some() {
                order.update_shares(self.queues.tree(), queue);
            }
            for other in self.drop_withdrawn(decisions) {
                if let Some(queue) = self.queues.leaf(&other) {
                    order.update_shares(self.queues.tree(), queue);
                    if !self.rank_queue(&mut order, (class, &other), now, looked_at) {
                        order.remove(self.queues.tree(), queue);
                    }
                }
            }
            decisions.extend(decision);
            if !self.rank_queue(&mut order, (class, &name), now, looked_at) {
                order.remove(self.queues.tree(), queue);
            }
        }
    }

    /// Ranks a queue by the first of its gangs that would start now. A gang that cannot start must
    /// not decide the turn: the order would then depend on which gangs happen to be due. Returns
    /// false if no gang of the queue would start.
    fn rank_queue(
        &mut self,
        order: &mut TurnOrder,
        (class, name): (GangClass, &QueueName),
        now: Time,
        looked_at: &mut TriedGangs,
    ) -> bool {
        let Some(queue) = self.queues.leaf(name) else {
            return false;
        };
        while let Some(next) = self.scheduling_queue.next_due(class, name) {
            let lifted = self.lift_place(next);
            let mut log = UndoLog::default();
            let answer = self.try_to_admit(next, now, &mut log);
            log.roll_back(&mut self.nodes);
            if let (Some(Ok(start)), Some(state)) = (&answer, self.gangs.get(next)) {
                let next = NextGang {
                    released: self.released_quota(name, start),
                    ..self
                        .queues
                        .next_gang(&state.gang, &start.assignment().demand)
                };
                self.queues.rank(order, queue, next);
            }
            self.put_back_place(lifted);
            match answer {
                Some(Ok(_)) => return true,
                Some(Err(blocked)) => {
                    self.scheduling_queue.pop_due(class, name);
                    self.block_gang(next, blocked, looked_at);
                }
                None => {
                    self.scheduling_queue.pop_due(class, name);
                }
            }
        }
        false
    }

    /// Returns the quota that victims from the gang's own queue release if it starts, without
    /// surplus.
    fn released_quota(&self, queue: &QueueName, start: &GangStart) -> Demand {
        let GangStart::AfterVictims(plan) = start else {
            return Demand::default();
        };
        let held = |leaver: &PlannedVictim| {
            let gang = &self.gangs.get(leaver.gang)?.gang;
            let held = self.queues.gang_charge(queue, leaver.gang);
            held.filter(|_| !gang.surplus)
        };
        let own = plan.victims.iter().filter_map(held);
        own.flat_map(Demand::iter).collect()
    }

    /// Updates the capacity of the nodes, in which the queues measure their shares.
    fn measure_capacity(&mut self) {
        if std::mem::take(&mut self.capacity_changed) {
            for (resource, total) in self.nodes.totals() {
                self.queues.set_capacity(resource, total);
            }
        }
    }

    fn decide_gang(
        &mut self,
        at: GangIdx,
        now: Time,
        looked_at: &mut TriedGangs,
    ) -> Option<Decision> {
        let lifted = self.lift_place(at);
        let mut log = UndoLog::default();
        match self.try_to_admit(at, now, &mut log) {
            Some(Ok(GangStart::Immediate(way, groups))) => self.start_now(at, lifted, &way, groups),
            Some(Ok(GangStart::AfterVictims(plan))) => {
                self.put_back_place(lifted);
                self.carry_out_plan(at, *plan, now)
            }
            Some(Err(blocked)) => {
                self.put_back_place(lifted);
                self.block_gang(at, blocked, looked_at);
                None
            }
            None => {
                self.put_back_place(lifted);
                None
            }
        }
    }

    /// Starts a gang at once on its new placement. `lifted` is the place that was kept for it.
    pub(super) fn start_now(
        &mut self,
        at: GangIdx,
        lifted: Option<Box<LiftedPlace>>,
        way: &FlavorAssignment,
        groups: Vec<PodRuns>,
    ) -> Option<Decision> {
        self.note_placement(at, lifted.is_some());
        self.spend_place(lifted);
        let gang = Arc::clone(&self.gangs.get(at)?.gang);
        Some(self.commit(at, &gang, way, groups))
    }

    /// Records a new placement and returns the decision to place the gang.
    fn commit(
        &mut self,
        at: GangIdx,
        gang: &Arc<Gang>,
        way: &FlavorAssignment,
        groups: Vec<PodRuns>,
    ) -> Decision {
        self.blockages.clear();
        self.raise(way.shape.total.iter().copied(), Signal::Taken);
        let score = self.score(&way.shape, &groups);
        let placement = gang_table::placement(&self.nodes, gang, groups.iter());
        self.record_start(at, gang, way);
        self.record_place(at, way, groups, self.now);
        Decision::Place {
            gang: gang.id.clone(),
            placement,
            score,
        }
    }

    /// Returns the decision to wait, if the reason differs from the last reported one.
    fn wait_decision(&mut self, at: GangIdx) -> Option<Decision> {
        let state = self.gangs.get_mut(at)?;
        let certificate = state.explanation()?.clone();
        if state.reported_reason == Some(certificate.reason) {
            return None;
        }
        state.reported_reason = Some(certificate.reason);
        Some(Decision::Wait {
            gang: state.gang.id.clone(),
            certificate,
        })
    }

    /// Returns the score of a placement that is already charged.
    pub(super) fn score(&self, shape: &GangShape, groups: &[PodRuns]) -> PlacementScore {
        let used: BTreeSet<NodeIdx> = groups.iter().flatten().map(|(node, _)| *node).collect();
        let mut devices: Vec<ResourceIdx> = shape.groups.iter().filter_map(|g| g.device).collect();
        if devices.is_empty() {
            devices = self.nodes.devices().to_vec();
        }
        devices.sort_unstable();
        devices.dedup();
        let mut devices_left = 0_u64;
        for node in &used {
            for device in &devices {
                let free = self.nodes.free(*device, *node).max(0);
                devices_left = devices_left.saturating_add(u64::try_from(free).unwrap_or(0));
            }
        }
        let nodes = u32::try_from(used.len()).unwrap_or(u32::MAX);
        PlacementScore {
            devices_left,
            nodes,
        }
    }
}
