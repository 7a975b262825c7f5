//! Who may be asked to make room.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::placed::{Part, Placed, Standing};
use super::super::{Engine, Stage};

use super::asker::Asker;
use crate::decision::Because;
use crate::preemption::Budget;
use crate::preemption::policy::{self, Holds, Rank, Terms};
use crate::quota::{Claim, Demand, QueueIdx};
use crate::state::GangIdx;
use crate::time::Time;

/// A gang that may make room.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) gang: GangIdx,
    pub(super) queue: QueueIdx,
    same_queue: bool,
    pub(super) because: Because,
    terms: Terms,
    pub(super) lost_device_seconds: u64,
    since: Time,
    /// Which of the charges is its.
    charge: usize,
    /// Which of the parts are its.
    parts: Range<usize>,
}

impl Candidate {
    /// Whether others may have it leave though its queue needs its quota.
    pub(super) fn preemptible(&self) -> bool {
        self.terms.preemptible
    }

    pub(super) fn is_surplus(&self) -> bool {
        self.terms.surplus
    }

    /// Who of a lower rank can make room instead leaves first.
    pub(super) fn rank(&self) -> Rank {
        self.terms.rank()
    }
}

/// The gangs that may make room.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// In the order in which they are asked: surplus, lower priority, cheaper, newer;
    /// then by name.
    pub(super) list: Vec<Candidate>,
    parts: Vec<Part>,
    charges: Vec<Arc<Demand>>,
    /// Those who may not yet, and until when.
    pub(super) protected: Vec<(GangIdx, Time)>,
}

impl Candidates {
    /// What a candidate is charged.
    pub(super) fn charge(&self, candidate: &Candidate) -> &Demand {
        static NOTHING: std::sync::LazyLock<Demand> = std::sync::LazyLock::new(Demand::default);
        self.charges
            .get(candidate.charge)
            .map_or(&NOTHING, |demand| &**demand)
    }

    /// What a candidate holds, node by node.
    pub(super) fn parts(&self, candidate: &Candidate) -> &[Part] {
        self.parts.get(candidate.parts.clone()).unwrap_or(&[])
    }
}

impl Engine {
    /// The gangs that may make room.
    pub(super) fn candidates(&mut self, asker: &Asker<'_>, budget: &mut Budget) -> Candidates {
        let mut found = Candidates::default();
        let mut charges: FxHashMap<usize, usize> = FxHashMap::default();
        let terms = Terms::of(asker.gang);
        let names = self.asked_queues(asker);
        let others = names.iter().filter(|name| **name != asker.gang.queue);
        let others: Vec<QueueIdx> = others
            .filter_map(|name| self.queues.tree().find(name))
            .collect();
        budget.look_at_claims(&mut self.queues, others.into_iter());
        self.gangs.start_reading();
        for name in names {
            let Some(queue) = self.queues.tree().find(&name) else {
                continue;
            };
            let same_queue = name == asker.gang.queue;
            let asked = self.asked_of(asker, budget, (&name, queue));
            let holders: Vec<(GangIdx, usize)> = match (asked.gangs, asked.surplus) {
                (None, None) => continue,
                (None, Some(_)) => self.queues.surplus_of(&name).collect(),
                (Some(_), _) => self.queues.held_by(&name).collect(),
            };
            let cap = self.queues.max_min_runtime(&name);
            for (gang, number) in holders {
                let Some(card) = self.gangs.card(gang, &self.pods) else {
                    continue;
                };
                let Some(demand) = self.queues.charged(number) else {
                    continue;
                };
                let holds = match card.terms.surplus {
                    true => asked.surplus,
                    false => asked.gangs,
                };
                let Some(holds) = holds else { continue };
                let guaranteed = !card.terms.preemptible
                    && budget.guarantees(&self.queues, (&name, queue), demand);
                let because = policy::may(&asker.preemption, terms, card.terms, holds, guaranteed);
                let Some(because) = because else {
                    continue;
                };
                if let Some(until) = card.safe_until(cap).filter(|until| *until > self.now) {
                    found.protected.push((gang, until));
                    continue;
                }
                let charge = *charges.entry(number).or_insert_with(|| {
                    found.charges.push(Arc::clone(demand));
                    found.charges.len().saturating_sub(1)
                });
                let from = found.parts.len();
                found.parts.extend_from_slice(&card.parts);
                found.list.push(Candidate {
                    gang,
                    queue,
                    same_queue,
                    because,
                    terms: card.terms,
                    lost_device_seconds: card.stake.lost_device_seconds(self.now),
                    since: card.stake.since,
                    charge,
                    parts: from..found.parts.len(),
                });
            }
        }
        // Stable: most come in order, or in its reverse.
        let rank = |c: &Candidate| (c.rank(), c.lost_device_seconds, Reverse(c.since));
        let name = |c: &Candidate| self.gangs.name(c.gang);
        let order = |a: &Candidate, b: &Candidate| {
            let ranks = rank(a).cmp(&rank(b));
            ranks.then_with(|| name(a).cmp(&name(b)))
        };
        found.list.sort_by(order);
        found
    }

    /// Whether a candidate may still be asked, after others have left.
    pub(super) fn is_still_asked(
        &mut self,
        asker: &Asker<'_>,
        budget: &mut Budget,
        (candidate, charge): (&Candidate, &Demand),
    ) -> bool {
        if !candidate.terms.preemptible {
            let name = self.queues.tree().name(candidate.queue);
            let kept = name.is_none_or(|name| {
                budget.guarantees(&self.queues, (name, candidate.queue), charge)
            });
            if kept {
                return false;
            }
        }
        let may = |holds| {
            let terms = Terms::of(asker.gang);
            policy::may(&asker.preemption, terms, candidate.terms, holds, false).is_some()
        };
        if candidate.same_queue {
            // Who could be asked can be now.
            return true;
        }
        let claimed = match candidate.is_surplus() {
            true => budget.claim_on_surplus(&mut self.queues, candidate.queue),
            false => budget.claim(&mut self.queues, candidate.queue),
        };
        let Some(claimed) = claimed else {
            return false;
        };
        let because = match claimed.claim {
            Claim::Owed => Because::Borrows,
            Claim::Borrowing => Because::LowerPriority,
        };
        because == candidate.because || may(Holds::Other(claimed.claim))
    }

    /// A gang that has its place for good.
    pub(super) fn settled(&self, at: GangIdx) -> Option<&Placed> {
        match &self.state(at)?.stage {
            Stage::Placed(placed) if placed.standing == Standing::Settled => Some(placed),
            _ => None,
        }
    }
}
