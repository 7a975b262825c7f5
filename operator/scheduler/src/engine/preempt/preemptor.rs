//! The preemptor: a gang that wants room, and the gangs that it may preempt.

use std::collections::BTreeMap;

use super::super::Engine;
use super::super::flavor_assignment::FlavorAssignment;
use crate::gang::Gang;
use crate::ids::QueueName;
use crate::preemption::QuotaBudget;
use crate::preemption::policy::{self, QueueRelation};
use crate::queue::{PreemptionPolicy, ReclaimPolicy};
use crate::queueing::Queues;
use crate::quota::{ClaimKind, ClaimTerms, Demand, QuotaClaim};
use crate::state::QueueIdx;

/// A gang that wants room, with one of its flavor assignments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preemptor<'a> {
    pub(super) gang: &'a Gang,
    pub(super) queue: QueueIdx,
    pub(super) demand: &'a Demand,
    pub(super) preemption: PreemptionPolicy,
    pub(super) scope: PreemptionScope,
    right: PreemptionRight,
    /// True if another gang has preempted it.
    preempted: bool,
}

/// The right by which a gang preempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum PreemptionRight {
    /// Everything that the policy of its queue allows.
    Policy,
    /// Reclaim of what its queue is owed, and of surplus, as long as the gang borrows nothing that
    /// it lacks.
    Reclaim,
}

/// The gangs that a preemptor may preempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreemptionScope {
    /// The gangs that its queue's policy allows, and surplus.
    AllGangs,
    /// Surplus only.
    Surplus,
    /// Surplus of its own queue only.
    OwnSurplus,
}

/// The claims on a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueClaims {
    /// The claim on its gangs. None: there is no claim.
    pub(super) gangs: Option<QueueClaim>,
    /// The claim on its surplus.
    pub(super) surplus: Option<QueueClaim>,
}

/// The claim of a preemptor on a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueClaim {
    /// The claim in the current state.
    pub(super) now: QueueRelation,
    /// The best possible claim, once gangs of the preemptor's queue have left.
    pub(super) at_best: QueueRelation,
}

impl QueueClaim {
    /// True if the queue owes what it holds, by the best possible claim.
    pub(super) fn is_owed(&self) -> bool {
        match self.at_best {
            QueueRelation::Own => false,
            QueueRelation::Other { claim, .. } => claim.kind == ClaimKind::Owed,
        }
    }
}

impl<'a> Preemptor<'a> {
    /// Returns its budget before any victim leaves.
    pub(super) fn budget(&self, queues: &Queues) -> QuotaBudget<'a> {
        QuotaBudget::new(queues, (self.queue, self.demand), self.preemption)
    }

    /// True if the gang may preempt a candidate only as long as it borrows nothing that it lacks.
    /// Otherwise a preempted gang would preempt the gang that took its place. Surplus of its own
    /// queue is exempt, because it takes the place of no gang.
    pub(super) fn must_not_borrow(&self, is_own_surplus: bool) -> bool {
        self.right == PreemptionRight::Reclaim || self.preempted && !is_own_surplus
    }
}

impl Engine {
    /// True if the policy of a gang's queue allows it to reclaim what it is owed.
    pub(in crate::engine) fn can_reclaim(&self, gang: &Gang) -> bool {
        let preemption = self.queues.preemption_policy(&gang.queue);
        preemption.is_some_and(|p| p.reclaim != ReclaimPolicy::Never)
    }

    /// Checks quickly if a gang may preempt any gang.
    pub(in crate::engine) fn can_preempt(&self, gang: &Gang) -> bool {
        let allows = |preemption| policy::can_preempt(&preemption);
        let policy = self.preemption_policy(gang).is_some_and(allows);
        !gang.surplus && (policy || self.queues.has_surplus())
    }

    /// Returns the preemption policy of its queue, reduced to reclaim if the gang itself does not
    /// preempt.
    fn preemption_policy(&self, gang: &Gang) -> Option<PreemptionPolicy> {
        let of_queue = self.queues.preemption_policy(&gang.queue)?;
        Some(match gang.preempts {
            true => of_queue,
            false => of_queue.reclaim_only(),
        })
    }

    /// Returns the preemptor, limited by `right`. None: the gang may preempt no gang.
    pub(super) fn preemptor<'a>(
        &mut self,
        (gang, preempted): (&'a Gang, bool),
        (way, right): (&'a FlavorAssignment, PreemptionRight),
    ) -> Option<Preemptor<'a>> {
        if !self.can_preempt(gang) {
            return None;
        }
        let preemption = self.preemption_policy(gang)?;
        let preemption = match right {
            PreemptionRight::Policy => preemption,
            PreemptionRight::Reclaim => preemption.reclaim_only(),
        };
        let queue = self.queues.leaf(&gang.queue)?;
        // Only the search knows which resources lack room: see [`Preemptor::must_not_borrow`].
        let waits = preempted && self.borrows_missing_quota(queue, &way.demand);
        let (waits, preemption) = match waits && preemption.shares_fairly() {
            true => (false, preemption.fair_share_only()),
            false => (waits, preemption),
        };
        let scope = match policy::can_preempt(&preemption) {
            _ if waits => PreemptionScope::OwnSurplus,
            true => PreemptionScope::AllGangs,
            false => PreemptionScope::Surplus,
        };
        // A gang that must wait wakes when it no longer borrows.
        let may_ask = waits || scope == PreemptionScope::AllGangs || self.queues.has_surplus();
        may_ask.then_some(Preemptor {
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
    fn borrows_missing_quota(&mut self, queue: QueueIdx, demand: &Demand) -> bool {
        let lacks = self.queues.tree().shortages(queue, demand).into_iter();
        let lacking: Demand = lacks
            .map(|lack| (lack.flavor_resource, lack.needs))
            .collect();
        self.queues.borrows_without_surplus(queue, &lacking)
    }

    /// Returns the queues on which the preemptor may have claims.
    pub(super) fn claimed_queues(&self, asker: &Preemptor<'_>) -> Vec<QueueName> {
        let surplus = self.queues.surplus().map(|(queue, _)| queue);
        match asker.scope {
            PreemptionScope::AllGangs => self.queues.holders().map(|(q, _)| q.clone()).collect(),
            PreemptionScope::Surplus => surplus.cloned().collect(),
            PreemptionScope::OwnSurplus => {
                let own = surplus.filter(|queue| **queue == asker.gang.queue);
                own.cloned().collect()
            }
        }
    }

    /// Returns the claims on the preemptor's own queue.
    pub(super) fn own_queue_claims(&self, asker: &Preemptor<'_>, name: &QueueName) -> QueueClaims {
        let lowest = self.queues.lowest_priority(name);
        let some = lowest.is_some_and(|lowest| lowest <= asker.gang.priority);
        let own = QueueClaim {
            now: QueueRelation::Own,
            at_best: QueueRelation::Own,
        };
        QueueClaims {
            gangs: (asker.scope == PreemptionScope::AllGangs && some).then_some(own),
            surplus: Some(own),
        }
    }

    /// Returns the claims on another queue, now and at `best`.
    pub(super) fn other_queue_claims(
        &mut self,
        asker: &Preemptor<'_>,
        budget: &mut QuotaBudget<'_>,
        name: &QueueName,
        best: &BTreeMap<QueueIdx, ClaimTerms>,
    ) -> QueueClaims {
        let mut asked = QueueClaims {
            gangs: None,
            surplus: None,
        };
        let Some(queue) = self.queues.tree().find(name) else {
            return asked;
        };
        let policy = self.queues.preemption_policy(name).unwrap_or_default();
        let relation = |claim| QueueRelation::Other {
            claim,
            borrow_within: policy.borrow_within,
        };
        let ask = |now: Option<QuotaClaim>| {
            let now = now.map(|claimed| claimed.terms);
            let best = best.get(&queue).copied();
            let kind = now.into_iter().chain(best).map(|terms| terms.kind).min()?;
            let at_best = ClaimTerms {
                kind,
                larger_share: best.or(now).and_then(|terms| terms.larger_share),
            };
            Some(QueueClaim {
                now: relation(now.unwrap_or(at_best)),
                at_best: relation(at_best),
            })
        };
        if asker.scope == PreemptionScope::AllGangs {
            asked.gangs = ask(budget.claim(&mut self.queues, queue));
        }
        if self.queues.surplus_charges(name).next().is_some() {
            asked.surplus = ask(budget.claim_on_surplus(&mut self.queues, queue));
        }
        asked
    }
}
