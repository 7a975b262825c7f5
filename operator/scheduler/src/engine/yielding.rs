//! Surplus that makes room as soon as a gang can use it: who plans for that gang
//! counts it as gone.

use std::collections::BTreeSet;

use super::placed::Standing;
use super::{Engine, Stage};
use crate::gang::Gang;
use crate::quota::{Claim, Demand};
use crate::state::GangIdx;

impl Engine {
    /// What is surplus and would make room for a gang: in its queue, and in those that
    /// owe it what it asks for.
    pub(super) fn yields_to(&self, gang: &Gang, demand: &Demand) -> BTreeSet<GangIdx> {
        let mut yields = BTreeSet::new();
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
