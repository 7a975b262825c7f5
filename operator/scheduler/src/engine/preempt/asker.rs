//! A gang that wants room, and whom it may ask for it.

use std::collections::BTreeMap;

use super::super::Engine;
use super::super::ways::Way;
use crate::gang::Gang;
use crate::ids::QueueName;
use crate::preemption::Budget;
use crate::preemption::policy::{self, Holds};
use crate::queue::{Preemption, Reclaim};
use crate::quota::{Claim, Claimed, Demand, QueueIdx};

/// A gang that wants room, in one of its ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) gang: &'a Gang,
    pub(super) queue: QueueIdx,
    pub(super) demand: &'a Demand,
    pub(super) preemption: Preemption,
    pub(super) scope: Scope,
    right: Right,
    /// It had to leave its place for another.
    preempted: bool,
}

/// The right by which a gang asks others to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Right {
    /// All that the policy of its queue says.
    OfPolicy,
    /// Reclaim of what its queue is owed, and surplus, as long as it borrows nothing that
    /// it lacks.
    Reclaim,
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
    pub(super) gangs: Option<Ask>,
    /// Of what is surplus in it.
    pub(super) surplus: Option<Ask>,
}

/// By what right something is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// As things are.
    pub(super) now: Holds,
    /// At best, once gangs of the asker's queue have left.
    pub(super) at_best: Holds,
}

impl Ask {
    /// True if it is owed, at best.
    pub(super) fn is_owed(&self) -> bool {
        self.at_best == Holds::Other(Claim::Owed)
    }
}

impl Asker<'_> {
    /// True if it may ask a candidate only as long as it borrows nothing that it lacks. The
    /// gang that took the place of a preempted one would be next otherwise; surplus of its
    /// own queue takes the place of no gang.
    pub(super) fn must_not_borrow(&self, is_own_surplus: bool) -> bool {
        self.right == Right::Reclaim || self.preempted && !is_own_surplus
    }
}

impl Engine {
    /// True if the queue of a gang takes back what it is owed.
    pub(in crate::engine) fn reclaims(&self, gang: &Gang) -> bool {
        let preemption = self.queues.preemption(&gang.queue);
        preemption.is_some_and(|p| p.reclaim != Reclaim::Never)
    }

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

    /// None: it may ask no gang. `right`: what it may ask for at most.
    pub(super) fn asker<'a>(
        &mut self,
        (gang, preempted): (&'a Gang, bool),
        (way, right): (&'a Way, Right),
    ) -> Option<Asker<'a>> {
        if !self.may_ask_anyone(gang) {
            return None;
        }
        let preemption = self.preemption_of(gang)?;
        let preemption = match right {
            Right::OfPolicy => preemption,
            Right::Reclaim => preemption.of_quota_alone(),
        };
        let queue = self.queues.leaf(&gang.queue)?;
        // Only a search tells of what there is too little room: see
        // [`Asker::must_not_borrow`].
        let waits = preempted && self.borrows_what_lacks_quota(queue, &way.demand);
        let scope = match policy::allows_any(&preemption) {
            _ if waits => Scope::OwnSurplus,
            true => Scope::Anyone,
            false => Scope::Surplus,
        };
        // A gang that waits is woken when it borrows no longer.
        let may_ask = waits || scope == Scope::Anyone || self.queues.has_surplus();
        may_ask.then_some(Asker {
            gang,
            queue,
            demand: &way.demand,
            preemption,
            scope,
            right,
            preempted,
        })
    }

    /// True if a queue would borrow some of that of which there is too little quota, as if
    /// there were no surplus in the queue.
    fn borrows_what_lacks_quota(&mut self, queue: QueueIdx, demand: &Demand) -> bool {
        let lacks = self.queues.tree().lacks(queue, demand).into_iter();
        let lacking: Demand = lacks.map(|lack| (lack.what, lack.needs)).collect();
        self.queues.borrows_but_surplus(queue, &lacking)
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

    /// The claims on the asker's own queue.
    pub(super) fn asked_of_own(&self, asker: &Asker<'_>, name: &QueueName) -> Asked {
        let lowest = self.queues.lowest_priority(name);
        let some = lowest.is_some_and(|lowest| lowest <= asker.gang.priority);
        let own = Ask {
            now: Holds::Own,
            at_best: Holds::Own,
        };
        Asked {
            gangs: (asker.scope == Scope::Anyone && some).then_some(own),
            surplus: Some(own),
        }
    }

    /// The claims on another queue, now and at `best`.
    pub(super) fn asked_of_other(
        &mut self,
        asker: &Asker<'_>,
        budget: &mut Budget<'_>,
        name: &QueueName,
        best: &BTreeMap<QueueIdx, Claim>,
    ) -> Asked {
        let mut asked = Asked {
            gangs: None,
            surplus: None,
        };
        let Some(queue) = self.queues.tree().find(name) else {
            return asked;
        };
        let ask = |now: Option<Claimed>| {
            let now = now.map(|claimed| claimed.claim);
            let at_best = now.into_iter().chain(best.get(&queue).copied()).min()?;
            Some(Ask {
                now: Holds::Other(now.unwrap_or(at_best)),
                at_best: Holds::Other(at_best),
            })
        };
        if asker.scope == Scope::Anyone {
            asked.gangs = ask(budget.claim(&mut self.queues, queue));
        }
        if self.queues.surplus_of(name).next().is_some() {
            asked.surplus = ask(budget.claim_on_surplus(&mut self.queues, queue));
        }
        asked
    }
}
