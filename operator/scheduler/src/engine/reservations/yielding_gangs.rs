//! Gangs whose room and quota a gang may use at once: surplus that makes room for it, and the gang
//! itself with its kept place. Plans for the gang count both as free.

use std::collections::BTreeSet;

use super::super::Engine;
use crate::gang::Gang;
use crate::ids::GangId;
use crate::quota::{ClaimKind, Demand};
use crate::state::GangIdx;
use crate::time::Time;

impl Engine {
    /// Returns the gangs that make way for a gang at once. These are surplus of its queue and of
    /// queues that owe it what it requests, and the gang itself if it has a kept place.
    pub(in crate::engine) fn gangs_yielding_to(
        &self,
        gang: &Gang,
        demand: &Demand,
    ) -> BTreeSet<GangIdx> {
        let mut yields = BTreeSet::new();
        if self.has_kept_place(gang) {
            yields.extend(self.gangs.find(&gang.id));
        }
        let Some(leaf) = self.queues.leaf(&gang.queue) else {
            return yields;
        };
        for (name, _) in self.queues.surplus() {
            let tree = self.queues.tree();
            let owes = |holder| {
                let claimed = tree.claim(leaf, demand, holder, |_| true);
                claimed.is_some_and(|claimed| claimed.terms.kind == ClaimKind::Owed)
            };
            if *name != gang.queue && !tree.find(name).is_some_and(owes) {
                continue;
            }
            for (at, _) in self.queues.surplus_charges(name) {
                yields.extend(self.gangs.settled(at).map(|_| at));
            }
        }
        yields
    }

    /// Sorts these gangs in the order in which a plan counts them as gone: first the gang of the
    /// plan, then surplus by placement time, then by name. A plan counts no more gangs than it
    /// needs, so the order decides which room it leaves to other gangs. The order must not depend
    /// on gang numbers, because a restored engine numbers gangs differently.
    pub(in crate::engine) fn sort_yielding(&self, yields: &BTreeSet<GangIdx>) -> Vec<GangIdx> {
        let rank = |at: GangIdx| -> (Option<Time>, Option<&GangId>) {
            let since = self.gangs.settled(at).map(|placed| placed.since);
            (since, self.gangs.name(at))
        };
        let mut order: Vec<GangIdx> = yields.iter().copied().collect();
        order.sort_by(|a, b| rank(*a).cmp(&rank(*b)));
        order
    }
}
