//! The order in which the engine tries flavor assignments, and when preemption in one of them comes
//! before the next one.

use super::{FlavorAssignment, FlavorAssignments};
use crate::engine::Engine;
use crate::engine::preempt::PreemptionPlan;
use crate::gang::Gang;
use crate::placement::UndoLog;
use crate::provisioning::ProvisioningScope;
use crate::queue::FlavorPolicy;
use crate::queueing::WakeCondition;

impl Engine {
    /// Returns the flavor policy of a gang's queue. A queue that orders new nodes before it preempts
    /// tries all flavors first.
    pub(in crate::engine) fn flavor_policy(&self, gang: &Gang) -> FlavorPolicy {
        let Some(queue) = self.queues.config(&gang.queue) else {
            return FlavorPolicy::default();
        };
        let provisioning = &queue.provisioning;
        let orders_first =
            provisioning.scope != ProvisioningScope::Never && !provisioning.after_preemption;
        FlavorPolicy {
            prefers_preemption: queue.flavor_policy.prefers_preemption && !orders_first,
            ..queue.flavor_policy
        }
    }

    /// Returns the flavor assignments with their numbers in the order in which the engine tries
    /// them: first the one of a kept place. If the policy avoids borrowing, those with which the
    /// queue would borrow now come last.
    pub(in crate::engine) fn assignments_in_order<'a>(
        &mut self,
        gang: &Gang,
        ways: &'a FlavorAssignments,
        policy: FlavorPolicy,
    ) -> Vec<(usize, &'a FlavorAssignment)> {
        let kept = self.kept_assignment(gang, ways);
        let mut order: Vec<(usize, &FlavorAssignment)> = ways.iter().enumerate().collect();
        order.sort_by_cached_key(|(number, way)| {
            let borrows = policy.avoids_borrowing && self.would_borrow(gang, way);
            (Some(*number) != kept, borrows)
        });
        order
    }

    /// If the policy prefers preemption to the next flavor and avoids borrowing, tries the leading
    /// assignments with which the queue would borrow now. Returns the plan of the first one without
    /// room whose victims free so much quota that the queue stays within its own.
    pub(in crate::engine) fn preempt_before_other_flavors(
        &mut self,
        (gang, preempted): (&Gang, bool),
        ways: &FlavorAssignments,
        policy: FlavorPolicy,
        wake: &mut WakeCondition,
    ) -> Option<PreemptionPlan> {
        if !(policy.prefers_preemption && policy.avoids_borrowing)
            || self.kept_assignment(gang, ways).is_some()
        {
            return None;
        }
        for way in ways.iter() {
            if !self.would_borrow(gang, way) {
                return None;
            }
            let mut log = UndoLog::default();
            let answer = self.try_assignment(gang, way, &mut log);
            log.roll_back(&mut self.nodes);
            let Err(blocked) = answer else { continue };
            if !blocked.explanation.reason.is_caused_by_usage() {
                continue;
            }
            let plan = self.plan_preemption_in_any((gang, preempted), &[way], wake);
            if let Some(plan) = plan.filter(|plan| self.stays_within_quota(gang, plan)) {
                return Some(plan);
            }
        }
        None
    }

    /// True if the gang's queue would exceed its own quota with an assignment, apart from surplus.
    fn would_borrow(&mut self, gang: &Gang, way: &FlavorAssignment) -> bool {
        let leaf = self.queues.leaf(&gang.queue);
        leaf.is_some_and(|leaf| self.queues.borrows_without_surplus(leaf, &way.demand))
    }

    /// True if the gang's queue stays within its own quota once the victims have left.
    pub(in crate::engine) fn stays_within_quota(&self, gang: &Gang, plan: &PreemptionPlan) -> bool {
        let released = self.released_quota(&gang.queue, plan);
        let demand = &plan.assignment.demand;
        let leaf = self.queues.leaf(&gang.queue);
        leaf.is_some_and(|leaf| {
            self.queues.tree().lowest_within(leaf, demand, &released) == Some(leaf)
        })
    }
}
