//! The preemptor: a gang that wants room, and the gangs that it may preempt.

use std::collections::BTreeMap;

use super::super::Engine;
use super::super::ways::Way;
use crate::gang::Gang;
use crate::ids::QueueName;
use crate::preemption::Budget;
use crate::preemption::policy::{self, Holds};
use crate::queue::{Preemption, Reclaim};
use crate::quota::{Claim, Claimed, Demand, QueueIdx};

/// A gang that wants room, with one of its flavor assignments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) gang: &'a Gang,
    pub(super) queue: QueueIdx,
    pub(super) demand: &'a Demand,
    pub(super) preemption: Preemption,
    pub(super) scope: Scope,
    right: Right,
    /// It was preempted by another gang.
    preempted: bool,
}

/// The right by which a gang preempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Right {
    /// All that the policy of its queue allows.
    OfPolicy,
    /// Reclaim of what its queue is owed, and of surplus, as long as the gang borrows nothing that
    /// it lacks.
    Reclaim,
}

/// Which gangs it may preempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Those that its queue's policy allows, and surplus.
    Anyone,
    /// Surplus only.
    Surplus,
    /// Surplus of its own queue only.
    OwnSurplus,
}

/// The claims on a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// The claim on its gangs. None: there is no claim.
    pub(super) gangs: Option<Ask>,
    /// The claim on its surplus.
    pub(super) surplus: Option<Ask>,
}

/// The claim of a preemptor on a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// The claim as things are now.
    pub(super) now: Holds,
    /// The best claim, once gangs of the preemptor's queue have left.
    pub(super) at_best: Holds,
}

impl Ask {
    /// True if the queue owes what it holds, at best.
    pub(super) fn is_owed(&self) -> bool {
        self.at_best == Holds::Other(Claim::Owed)
    }
}

impl Asker<'_> {
    /// True if the gang may preempt a candidate only as long as it borrows nothing that it lacks.
    /// Otherwise a preempted gang would preempt the gang that took its place. Surplus of its own
    /// queue is excepted, because it takes the place of no gang.
    pub(super) fn must_not_borrow(&self, is_own_surplus: bool) -> bool {
        self.right == Right::Reclaim || self.preempted && !is_own_surplus
    }
}

impl Engine {
    /// True if the queue of a gang reclaims what it is owed.
    pub(in crate::engine) fn reclaims(&self, gang: &Gang) -> bool {
        let preemption = self.queues.preemption(&gang.queue);
        preemption.is_some_and(|p| p.reclaim != Reclaim::Never)
    }

    /// A quick check if a gang may preempt at all.
    pub(in crate::engine) fn may_ask_anyone(&self, gang: &Gang) -> bool {
        let allows = |preemption| policy::allows_any(&preemption);
        let policy = self.preemption_of(gang).is_some_and(allows);
        !gang.surplus && (policy || self.queues.has_surplus())
    }

    /// The preemption policy of its queue, as far as the gang itself preempts.
    fn preemption_of(&self, gang: &Gang) -> Option<Preemption> {
        let of_queue = self.queues.preemption(&gang.queue)?;
        Some(match gang.preempts {
            true => of_queue,
            false => of_queue.of_quota_alone(),
        })
    }

    /// The preemptor. None: it may preempt no gang. `right` bounds what it may do.
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
        // Only a search finds out which resources lack room: see [`Asker::must_not_borrow`].
        let waits = preempted && self.borrows_what_lacks_quota(queue, &way.demand);
        let scope = match policy::allows_any(&preemption) {
            _ if waits => Scope::OwnSurplus,
            true => Scope::Anyone,
            false => Scope::Surplus,
        };
        // A gang that must wait is woken when it borrows no longer.
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

    /// True if a queue would borrow some of the quota that it lacks, as if the queue had no
    /// surplus.
    fn borrows_what_lacks_quota(&mut self, queue: QueueIdx, demand: &Demand) -> bool {
        let lacks = self.queues.tree().lacks(queue, demand).into_iter();
        let lacking: Demand = lacks.map(|lack| (lack.what, lack.needs)).collect();
        self.queues.borrows_but_surplus(queue, &lacking)
    }

    /// The queues on which there may be claims.
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

    /// The claims on the preemptor's own queue.
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
