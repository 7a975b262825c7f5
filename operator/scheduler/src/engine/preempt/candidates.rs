//! Candidates: gangs that may be victims.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::Engine;
use super::super::gang_table::NodeUsage;

use super::preemptor::{Preemptor, QueueClaims};
use crate::decision::PreemptionReason;
use crate::ids::QueueName;
use crate::preemption::QuotaBudget;
use crate::preemption::policy::{self, PreemptionFacts, QueueRelation, VictimRank};
use crate::quota::{Demand, FairShare, FlavorResource};
use crate::state::{GangIdx, QueueIdx};
use crate::time::Time;

/// A gang that may be a victim.
#[derive(Clone, Debug)]
pub(super) struct VictimCandidate {
    pub(super) gang: GangIdx,
    pub(super) queue: QueueIdx,
    pub(super) same_queue: bool,
    /// True if its queue owes what it holds, at least once gangs of the preemptor's queue have
    /// left.
    owed: bool,
    /// The share of its queue without the candidates before it, of all queues, if queues share fairly
    /// and that share is larger than the share that the preemptor's queue would have.
    larger_share: Option<FairShare>,
    /// How many candidates leave before it, if always the queue with the largest share loses its next
    /// gang. 0 if shares do not count.
    departure: usize,
    terms: PreemptionFacts,
    pub(super) lost_device_seconds: u64,
    since: Time,
    /// The index of its charge.
    charge: usize,
    /// The range of its node usages.
    parts: Range<usize>,
}

impl VictimCandidate {
    /// True if it may be a victim even within its queue's quota.
    pub(super) fn is_preemptible(&self) -> bool {
        self.terms.preemptible
    }

    pub(super) fn is_surplus(&self) -> bool {
        self.terms.surplus
    }

    /// Returns the part of the rank that comes before shares.
    pub(super) fn class(&self) -> (bool, bool) {
        self.rank().class()
    }

    pub(super) fn set_larger_share(&mut self, share: FairShare, departure: usize) {
        self.larger_share = Some(share);
        self.departure = departure;
    }

    /// Returns the rank. Candidates of a lower rank leave first.
    pub(super) fn rank(&self) -> VictimRank {
        self.terms.rank(self.owed, self.larger_share)
    }
}

/// All candidates.
#[derive(Debug, Default)]
pub(super) struct VictimCandidates {
    /// Candidates in preemption order: surplus, gangs of queues that owe what they hold, lower
    /// priority, less lost work, newer placement; then by name.
    pub(super) list: Vec<VictimCandidate>,
    parts: Vec<NodeUsage>,
    charges: Vec<Arc<Demand>>,
    /// Gangs that are still protected, each with the end of its protection.
    pub(super) protected: Vec<(GangIdx, Time)>,
}

impl VictimCandidates {
    /// Returns the charge of a candidate.
    pub(super) fn charge(&self, candidate: &VictimCandidate) -> &Demand {
        static EMPTY_DEMAND: std::sync::LazyLock<Demand> =
            std::sync::LazyLock::new(Demand::default);
        self.charges
            .get(candidate.charge)
            .map_or(&EMPTY_DEMAND, |demand| &**demand)
    }

    /// Returns the sum of the candidates' charges, without surplus.
    fn sum_gang_charges(&self) -> Vec<(FlavorResource, i128)> {
        let gangs = self.list.iter().filter(|candidate| !candidate.is_surplus());
        self.sum_charges(gangs).into_iter().collect()
    }

    /// Returns the sum of the charges of candidates of the preemptor's own queue.
    pub(super) fn sum_own_charges(&self) -> BTreeMap<FlavorResource, i128> {
        self.sum_charges(self.list.iter().filter(|candidate| candidate.same_queue))
    }

    fn sum_charges<'a>(
        &self,
        candidates: impl Iterator<Item = &'a VictimCandidate>,
    ) -> BTreeMap<FlavorResource, i128> {
        let mut sums: BTreeMap<FlavorResource, i128> = BTreeMap::new();
        for (what, amount) in candidates.flat_map(|candidate| self.charge(candidate).iter()) {
            let sum = sums.entry(what).or_default();
            *sum = sum.saturating_add(amount);
        }
        sums
    }

    /// Returns the usage by all candidates, in no order.
    pub(super) fn all_node_usages(&self) -> &[NodeUsage] {
        &self.parts
    }

    /// Returns the usage by a candidate, node by node.
    pub(super) fn node_usages(&self, candidate: &VictimCandidate) -> &[NodeUsage] {
        self.parts.get(candidate.parts.clone()).unwrap_or(&[])
    }
}

impl Engine {
    /// Returns the gangs that may be victims, now or once other victims have left.
    pub(super) fn victim_candidates(
        &mut self,
        asker: &Preemptor<'_>,
        budget: &mut QuotaBudget,
    ) -> VictimCandidates {
        let mut found = VictimCandidates::default();
        let mut charges: FxHashMap<usize, usize> = FxHashMap::default();
        let names = self.claimed_queues(asker);
        let (own, others): (Vec<QueueName>, Vec<QueueName>) = names
            .into_iter()
            .partition(|name| *name == asker.gang.queue);
        let queues: Vec<QueueIdx> = others
            .iter()
            .filter_map(|name| self.queues.tree().find(name))
            .collect();
        budget.compute_claims(&mut self.queues, queues.iter().copied());
        self.gangs.forget_misplaced();
        for name in own {
            let asked = self.own_queue_claims(asker, &name);
            self.add_candidates(asker, budget, (&name, asked), (&mut found, &mut charges));
        }
        let leaving = found.sum_gang_charges();
        let best = budget.best_claims(&mut self.queues, &leaving, queues.into_iter());
        for name in others {
            let asked = self.other_queue_claims(asker, budget, &name, &best);
            self.add_candidates(asker, budget, (&name, asked), (&mut found, &mut charges));
        }
        self.sort_candidates(&mut found.list);
        found
    }

    /// Sorts candidates in preemption order.
    pub(super) fn sort_candidates(&self, candidates: &mut [VictimCandidate]) {
        // The sort is stable and fast here: most candidates come in order, or in reverse order.
        let rank = |c: &VictimCandidate| {
            let loss = (c.lost_device_seconds, Reverse(c.since));
            (c.rank(), c.departure, loss)
        };
        let name = |c: &VictimCandidate| self.gangs.name(c.gang);
        candidates.sort_by(|a, b| {
            let ranks = rank(a).cmp(&rank(b));
            ranks.then_with(|| name(a).cmp(&name(b)))
        });
    }

    /// Adds the candidates of one queue.
    fn add_candidates(
        &mut self,
        asker: &Preemptor<'_>,
        budget: &mut QuotaBudget,
        (name, asked): (&QueueName, QueueClaims),
        (found, charges): (&mut VictimCandidates, &mut FxHashMap<usize, usize>),
    ) {
        let Some(queue) = self.queues.tree().find(name) else {
            return;
        };
        let holders: Vec<(GangIdx, usize)> = match (asked.gangs, asked.surplus) {
            (None, None) => return,
            (None, Some(_)) => self.queues.surplus_charges(name).collect(),
            (Some(_), _) => self.queues.holder_charges(name).collect(),
        };
        let terms = PreemptionFacts::from_gang(asker.gang);
        let cap = self.queues.max_min_runtime(name);
        for (gang, number) in holders {
            let Some(card) = self.gangs.facts(gang, self.pods.known()) else {
                continue;
            };
            let Some(demand) = self.queues.charge_by_number(number) else {
                continue;
            };
            let holds = match card.terms.surplus {
                true => asked.surplus,
                false => asked.gangs,
            };
            let Some(holds) = holds else { continue };
            let guaranteed =
                !card.terms.preemptible && budget.guarantees(&self.queues, (name, queue), demand);
            let may = |holds| {
                policy::preemption_reason(&asker.preemption, terms, card.terms, holds, guaranteed)
            };
            let Some(reason) = may(holds.now).or_else(|| may(holds.at_best)) else {
                continue;
            };
            if let Some(until) = card.protected_until(cap).filter(|until| *until > self.now) {
                found.protected.push((gang, until));
                continue;
            }
            let charge = *charges.entry(number).or_insert_with(|| {
                found.charges.push(Arc::clone(demand));
                found.charges.len().saturating_sub(1)
            });
            let from = found.parts.len();
            found.parts.extend_from_slice(&card.parts);
            found.list.push(VictimCandidate {
                gang,
                queue,
                same_queue: *name == asker.gang.queue,
                owed: holds.is_owed() && reason != PreemptionReason::FairShare,
                larger_share: None,
                departure: 0,
                terms: card.terms,
                lost_device_seconds: card.stake.lost_device_seconds(self.now),
                since: card.stake.since,
                charge,
                parts: from..found.parts.len(),
            });
        }
    }

    /// Returns why the preemptor may preempt a candidate, given the victims so far. None: it may
    /// not.
    pub(super) fn preemption_reason(
        &mut self,
        asker: &Preemptor<'_>,
        budget: &mut QuotaBudget,
        (candidate, charge): (&VictimCandidate, &Demand),
    ) -> Option<PreemptionReason> {
        let is_own_surplus = candidate.same_queue && candidate.is_surplus();
        let must_wait =
            asker.must_not_borrow(is_own_surplus) && budget.borrows_missing_quota(&mut self.queues);
        if must_wait && !asker.preemption.shares_fairly() {
            return None;
        }
        let name = self.queues.tree().name(candidate.queue)?;
        if !candidate.terms.preemptible
            && budget.guarantees(&self.queues, (name, candidate.queue), charge)
        {
            return None;
        }
        let holds = if candidate.same_queue {
            QueueRelation::Own
        } else {
            let policy = self.queues.preemption_policy(name).unwrap_or_default();
            let claimed = match candidate.is_surplus() {
                true => budget.claim_on_surplus(&mut self.queues, candidate.queue),
                false => budget.claim(&mut self.queues, candidate.queue),
            };
            QueueRelation::Other {
                claim: claimed?.terms,
                borrow_within: policy.borrow_within,
            }
        };
        let terms = PreemptionFacts::from_gang(asker.gang);
        let reason =
            policy::preemption_reason(&asker.preemption, terms, candidate.terms, holds, false);
        reason.filter(|reason| !must_wait || *reason == PreemptionReason::FairShare)
    }
}
