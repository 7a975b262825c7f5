//! A gang that wants room, and whom it may ask for it.

use super::super::Engine;
use super::super::ways::Way;
use crate::gang::Gang;
use crate::ids::QueueName;
use crate::preemption::Budget;
use crate::preemption::policy::{self, Holds};
use crate::queue::Preemption;
use crate::quota::{Demand, QueueIdx};

/// A gang that wants room, in one of its ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) gang: &'a Gang,
    pub(super) queue: QueueIdx,
    pub(super) demand: &'a Demand,
    pub(super) preemption: Preemption,
    pub(super) scope: Scope,
}

/// Whom it may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Whom its queue's policy says, and surplus.
    Anyone,
    /// Surplus only.
    Surplus,
    /// Surplus of its own queue only.
    OwnSurplus,
}

/// What may be asked of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Of its gangs; None: nothing.
    pub(super) gangs: Option<Holds>,
    /// Of what is surplus in it.
    pub(super) surplus: Option<Holds>,
}

impl Engine {
    /// Whether a gang of that queue may ask anyone for room, as far as that is told at
    /// a glance.
    pub(in crate::engine) fn may_ask_anyone(&self, gang: &Gang) -> bool {
        let allows = |preemption| policy::allows_any(&preemption);
        let policy = self.preemption_of(gang).is_some_and(allows);
        !gang.surplus && (policy || self.queues.has_surplus())
    }

    /// Whom its queue lets it ask, as far as it wants that.
    fn preemption_of(&self, gang: &Gang) -> Option<Preemption> {
        let of_queue = self.queues.preemption(&gang.queue)?;
        Some(match gang.preempts {
            true => of_queue,
            false => of_queue.of_quota_alone(),
        })
    }

    /// None: it may ask nobody.
    pub(super) fn asker<'a>(
        &mut self,
        (gang, preempted): (&'a Gang, bool),
        way: &'a Way,
    ) -> Option<Asker<'a>> {
        if !self.may_ask_anyone(gang) {
            return None;
        }
        let preemption = self.preemption_of(gang)?;
        let queue = self.queues.leaf(&gang.queue)?;
        // Who was preempted and borrows waits for what becomes free: else the one
        // who took its place would be next. Surplus takes nobody's place.
        let waits = preempted && self.queues.borrows_but_surplus(queue, &way.demand);
        let scope = match policy::allows_any(&preemption) {
            _ if waits => Scope::OwnSurplus,
            true => Scope::Anyone,
            false => Scope::Surplus,
        };
        let may_ask = scope == Scope::Anyone || self.queues.has_surplus();
        may_ask.then_some(Asker {
            gang,
            queue,
            demand: &way.demand,
            preemption,
            scope,
        })
    }

    /// The queues of which something may be asked.
    pub(super) fn asked_queues(&self, asker: &Asker<'_>) -> Vec<QueueName> {
        let surplus = self.queues.surplus().map(|(queue, _)| queue);
        match asker.scope {
            Scope::Anyone => self.queues.holders().map(|(q, _)| q.clone()).collect(),
            Scope::Surplus => surplus.cloned().collect(),
            Scope::OwnSurplus => {
                let own = surplus.filter(|queue| **queue == asker.gang.queue);
                own.cloned().collect()
            }
        }
    }

    /// What may be asked of a queue, with those out who are.
    pub(super) fn asked_of(
        &mut self,
        asker: &Asker<'_>,
        budget: &mut Budget<'_>,
        (name, queue): (&QueueName, QueueIdx),
    ) -> Asked {
        let anyone = asker.scope == Scope::Anyone;
        if *name == asker.gang.queue {
            let lowest = self.queues.lowest_priority(name);
            let some = lowest.is_some_and(|lowest| lowest <= asker.gang.priority);
            return Asked {
                gangs: (anyone && some).then_some(Holds::Own),
                surplus: Some(Holds::Own),
            };
        }
        let claim = anyone
            .then(|| budget.claim(&mut self.queues, queue))
            .flatten();
        let has_surplus = self.queues.surplus_of(name).next().is_some();
        let surplus = has_surplus
            .then(|| budget.claim_on_surplus(&mut self.queues, queue))
            .flatten();
        let holds = |claimed: crate::quota::Claimed| Holds::Other(claimed.claim);
        Asked {
            gangs: claim.map(holds),
            surplus: surplus.map(holds),
        }
    }
}
