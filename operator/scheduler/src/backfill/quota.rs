//! Quota is reserved as room is: for the first gang of a queue that quota blocks.
//!
//! Gangs behind it in the queue may start if they end before its quota is free by
//! known ends of the queue's own gangs, or leave enough of it. What other queues
//! hold is not waited for: whose turn it is to borrow is not decided here.

use super::{Ends, PATIENCE, Stay};
use crate::gang::Gang;
use crate::queueing::OrderKey;
use crate::quota::{Demand, FlavorResource, QueueIdx, Tree};
use crate::state::GangIdx;
use crate::time::Time;

/// The first gang of a queue that quota blocks.
#[derive(Clone, Debug)]
pub(crate) struct QuotaHead {
    pub(crate) at: GangIdx,
    pub(crate) key: OrderKey,
    /// What it needs beyond what is given back by then.
    needs: Net,
    /// When that much is given back. None: not known, or never by this queue alone.
    pub(crate) start: Option<Time>,
    /// The first end that was counted on.
    pub(crate) first_end: Option<Time>,
    submitted: Time,
}

/// A demand less what is given back.
#[derive(Clone, Debug)]
struct Net {
    demand: Demand,
    given_back: Vec<Demand>,
}

impl Net {
    /// Whether there is quota for it, and for `more` beside it.
    fn fits(&self, tree: &Tree, queue: QueueIdx, more: &Demand) -> bool {
        let sum = self.demand.iter().chain(more.iter());
        // A demand has no negative amounts, so that sums come first.
        let sum: Demand = sum.collect();
        let net: Demand = sum
            .iter()
            .map(|(what, amount)| {
                let back = self.given_back.iter().flat_map(Demand::iter);
                let back = back.filter(|(w, _)| *w == what).map(|(_, n)| n);
                (what, back.fold(amount, i128::saturating_sub))
            })
            .collect();
        tree.fits(queue, &net)
    }

    fn give_back(&mut self, demand: &Demand) {
        let all = self.given_back.iter().flat_map(Demand::iter);
        self.given_back = vec![all.chain(demand.iter()).collect()];
    }
}

impl QuotaHead {
    /// `held`: what a gang of the queue holds of it.
    pub(crate) fn new<'d>(
        (at, key, gang): (GangIdx, OrderKey, &Gang),
        demand: &Demand,
        (tree, queue): (&Tree, QueueIdx),
        ends: Option<&Ends>,
        held: impl Fn(GangIdx) -> Option<&'d Demand>,
    ) -> Self {
        let mut head = Self {
            at,
            key,
            needs: Net {
                demand: demand.clone(),
                given_back: Vec::new(),
            },
            start: None,
            first_end: None,
            submitted: gang.submitted,
        };
        let mut first = true;
        for (end, holder) in ends.into_iter().flat_map(Ends::iter) {
            let Some(held) = held(holder) else {
                continue;
            };
            if std::mem::take(&mut first) {
                head.first_end = end;
            }
            head.needs.give_back(held);
            if head.needs.fits(tree, queue, &Demand::default()) {
                head.start = end;
                return head;
            }
        }
        head
    }

    /// What it waits for.
    pub(crate) fn quotas(&self) -> impl Iterator<Item = FlavorResource> {
        self.needs.demand.iter().map(|(what, _)| what)
    }

    /// Whether there is quota for it in time if a gang is given so much before.
    pub(crate) fn leaves_enough(&self, demand: &Demand, (tree, queue): (&Tree, QueueIdx)) -> bool {
        self.needs.fits(tree, queue, demand)
    }

    /// Whether a gang of the queue that comes after it may start.
    pub(crate) fn lets(
        &self,
        stay: &Stay,
        demand: &Demand,
        tree: (&Tree, QueueIdx),
        now: Time,
    ) -> bool {
        let in_time = match self.start {
            Some(start) => stay.ends_by(start, self.submitted, now),
            None => stay.preemptible && now < self.submitted.plus(PATIENCE),
        };
        let backfills = stay.backfill && in_time;
        backfills || self.leaves_enough(demand, tree)
    }
}
