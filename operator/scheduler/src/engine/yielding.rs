//! What is free for a gang as soon as it can use it: surplus that makes room, and what
//! is kept for it. Who plans for that gang counts it as gone.

use std::collections::BTreeSet;

use super::placed::Standing;
use super::{Engine, Stage};
use crate::gang::Gang;
use crate::quota::{Claim, Demand};
use crate::state::GangIdx;

impl Engine {
    /// Who makes way for a gang at once: surplus of its queue, and of those that owe it
    /// what it asks for; the gang itself, where a place is kept for it.
    pub(super) fn yields_to(&self, gang: &Gang, demand: &Demand) -> BTreeSet<GangIdx> {
        let mut yields = BTreeSet::new();
        if self.is_kept_for(gang) {
            yields.extend(self.ids.get(&gang.id).copied());
        }
        let Some(leaf) = self.queues.leaf(&gang.queue) else {
            return yields;
        };
        for (name, _) in self.queues.surplus() {
            let tree = self.queues.tree();
            let owes = |holder| {
                let claimed = tree.claim(leaf, demand, holder, |_| true);
                claimed.is_some_and(|claimed| claimed.claim == Claim::Owed)
            };
            if *name != gang.queue && !tree.find(name).is_some_and(owes) {
                continue;
            }
            for (at, _) in self.queues.surplus_of(name) {
                let is_there = |state: &super::GangState| matches!(&state.stage, Stage::Placed(p) if p.standing == Standing::Settled);
                yields.extend(self.state(at).is_some_and(is_there).then_some(at));
            }
        }
        yields
    }
}
