//! The order in which the engine tries flavor assignments, and when preemption in one of them comes
//! before the next one.

use super::{FlavorAssignment, FlavorAssignments};
use crate::engine::Engine;
use crate::engine::preempt::PreemptionPlan;
use crate::gang::Gang;
use crate::provisioning::ProvisioningScope;
use crate::queue::FlavorPolicy;

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
