//! Turns of queues: the rank of a queue by its next gang.

use super::super::Engine;
use super::super::admission::GangStart;
use super::super::preempt::{PlannedVictim, PreemptionPlan};
use super::cycle_log::CycleLog;
use crate::ids::QueueName;
use crate::placement::UndoLog;
use crate::queueing::GangClass;
use crate::quota::{Demand, NextGang, TurnOrder};

impl Engine {
    /// Ranks a queue by the first of its gangs that would start now. A gang that cannot start must
    /// not decide the turn: the order would then depend on which gangs happen to be due. Returns
    /// false if no gang of the queue would start.
    pub(in crate::engine) fn rank_queue(
        &mut self,
        order: &mut TurnOrder,
        (class, name): (GangClass, &QueueName),
        log: &mut CycleLog,
    ) -> bool {
        let Some(queue) = self.queues.leaf(name) else {
            return false;
        };
        while let Some(next) = self.scheduling_queue.next_due(class, name) {
            let lifted = self.lift_place(next);
            let mut trial = UndoLog::default();
            let answer = self.try_to_admit(next, &mut trial);
            trial.roll_back(&mut self.nodes);
            if let (Some(Ok(start)), Some(state)) = (&answer, self.gangs.get(next)) {
                let next = NextGang {
                    released: match start {
                        GangStart::AfterVictims(plan) => self.released_quota(name, plan),
                        GangStart::Immediate(..) | GangStart::AfterNodes(_) => Demand::default(),
                    },
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
                    self.block_gang(next, blocked, log);
                }
                None => {
                    self.scheduling_queue.pop_due(class, name);
                }
            }
        }
        false
    }

    /// Returns the quota that victims from the gang's own queue release, without surplus.
    pub(in crate::engine) fn released_quota(
        &self,
        queue: &QueueName,
        plan: &PreemptionPlan,
    ) -> Demand {
        let held = |leaver: &PlannedVictim| {
            let gang = &self.gangs.get(leaver.gang)?.gang;
            let held = self.queues.gang_charge(queue, leaver.gang);
            held.filter(|_| !gang.surplus)
        };
        let own = plan.victims.iter().filter_map(held);
        own.flat_map(Demand::iter).collect()
    }
}
