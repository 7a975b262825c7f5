//! Withdrawal of placements within a cycle. Only a later cycle takes back a reported placement. If
//! a gang would preempt a gang that the same cycle has placed, the cycle withdraws that placement
//! before it reports any decision. The preemptor then starts instead, at once or after its other
//! victims have left.
//!
//! The preemptor cannot always go first. Its queue's head may keep room from it that a gang of
//! another queue may use, because that gang's turn comes before the head's. Also, a gang that would
//! borrow has a late turn, but may be owed the same quota once a gang of its own queue leaves too.

use std::sync::Arc;

use super::super::Engine;
use super::super::admission::GangStart;
use super::super::preempt::{PlannedVictim, PreemptionPlan};
use super::cycle_log::CycleLog;
use crate::decision::Decision;
use crate::ids::QueueName;
use crate::placement::UndoLog;
use crate::quota::{Demand, FlavorResource};
use crate::state::GangIdx;

impl Engine {
    /// Records that the cycle is about to place a gang. A gang that returns to its kept place is a
    /// victim like any other gang: no gang may make room there before its return.
    pub(in crate::engine) fn note_placement(&mut self, at: GangIdx, goes_back: bool) {
        if goes_back {
            return;
        }
        let reported = self.gangs.get(at).and_then(|state| state.reported_reason);
        self.cycle_placements.insert(at, reported);
    }

    /// Starts or nominates a gang by a plan with victims.
    pub(in crate::engine) fn carry_out_plan(
        &mut self,
        at: GangIdx,
        mut plan: PreemptionPlan,
    ) -> Option<Decision> {
        let placed = &self.cycle_placements;
        let (new, old): (Vec<PlannedVictim>, Vec<PlannedVictim>) =
            std::mem::take(&mut plan.victims)
                .into_iter()
                .partition(|leaver| placed.contains(leaver.gang));
        let may_withdraw = !new.is_empty()
            && self.cycle_placements.may_withdraw()
            && (!old.is_empty() || self.can_start_without(at, &plan, &new));
        if !may_withdraw {
            plan.victims = new.into_iter().chain(old).collect();
            return self.nominate_plan(at, plan);
        }
        for leaver in &new {
            self.withdraw_placement(leaver.gang);
        }
        plan.victims = old;
        let lifted = self.lift_place(at);
        let mut log = UndoLog::default();
        if let Some(Ok(GangStart::Immediate(way, groups))) = self.try_to_admit(at, &mut log) {
            return self.start_now(at, lifted, &way, groups);
        }
        self.put_back_place(lifted);
        if !plan.victims.is_empty() {
            return self.nominate_plan(at, plan);
        }
        self.note_placement(at, self.kept_places.contains(at));
        self.nominate_plan(at, plan)?;
        self.start_nominated(at)
    }

    fn nominate_plan(&mut self, at: GangIdx, plan: PreemptionPlan) -> Option<Decision> {
        let lifted = self.lift_place(at);
        self.spend_place(lifted);
        let gang = Arc::clone(&self.gangs.get(at)?.gang);
        Some(self.nominate(at, &gang, plan))
    }

    /// True if there is room and quota for a plan once these gangs give up their places. Changes
    /// nothing.
    fn can_start_without(
        &mut self,
        at: GangIdx,
        plan: &PreemptionPlan,
        placed: &[PlannedVictim],
    ) -> bool {
        let Some(queue) = self.gangs.get(at).map(|state| state.gang.queue.clone()) else {
            return false;
        };
        let mut log = UndoLog::default();
        let mut given_back = Vec::new();
        for leaver in placed {
            let Some(placed) = self.gangs.placed(leaver.gang) else {
                continue;
            };
            let parts = placed.node_usages(self.pods.known());
            let of = placed.gang.queue.clone();
            for part in parts {
                let hold = part.to_charge(&self.catalog);
                log.uncharge(&mut self.nodes, &hold);
            }
            let held = self.queues.gang_charge(&of, leaver.gang).cloned();
            given_back.extend(self.queues.leaf(&of).zip(held));
        }
        for (group, runs) in plan.assignment.shape.groups.iter().zip(&plan.groups) {
            for (node, pods) in runs {
                log.charge(&mut self.nodes, *node, &group.demand, *pods);
            }
        }
        let has_room = self.has_room_for_charges(&plan.assignment.shape, &plan.groups);
        log.roll_back(&mut self.nodes);
        let amounts = |held: &Demand, sign: i128| -> Vec<(FlavorResource, i128)> {
            let held = held.iter();
            held.map(|(what, amount)| (what, amount.saturating_mul(sign)))
                .collect()
        };
        for (queue, held) in &given_back {
            self.queues.shift(*queue, &amounts(held, -1));
        }
        let admitted = self
            .queues
            .admit(&queue, &plan.assignment.demand, &self.catalog);
        for (queue, held) in &given_back {
            self.queues.shift(*queue, &amounts(held, 1));
        }
        has_room && admitted.is_ok()
    }

    /// Makes a gang that this cycle has placed pending again.
    fn withdraw_placement(&mut self, at: GangIdx) {
        let Some(state) = self.gangs.get(at) else {
            return;
        };
        let (id, queue) = (state.gang.id.clone(), state.gang.queue.clone());
        let Some(reported) = self.cycle_placements.withdraw(at, id, queue) else {
            return;
        };
        self.unplace(at);
        self.make_pending(at);
        if let Some(state) = self.gangs.get_mut(at) {
            state.reported_reason = reported;
        }
    }

    /// Drops the decisions that place gangs whose placement has been withdrawn. Returns the
    /// queues of these gangs.
    pub(in crate::engine) fn drop_withdrawn(&mut self, log: &mut CycleLog) -> Vec<QueueName> {
        let withdrawn = self.cycle_placements.take_withdrawn().into_iter();
        let queues = withdrawn.map(|(id, queue)| {
            log.drop_place(&id);
            queue
        });
        queues.collect()
    }
}
