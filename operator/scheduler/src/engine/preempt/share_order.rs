//! The order in which queues lose gangs by fair share.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::super::Engine;
use super::candidates::VictimCandidates;
use super::preemptor::Preemptor;
use crate::quota::FairShare;
use crate::state::QueueIdx;

impl Engine {
    /// Sets the share of each candidate's queue at the time when it loses the candidate, if always the
    /// queue with the largest share loses its next gang. Then sorts all candidates in preemption
    /// order.
    pub(super) fn order_by_share(&mut self, asker: &Preemptor<'_>, found: &mut VictimCandidates) {
        let mut departed: Vec<usize> = Vec::new();
        let mut from = 0_usize;
        // Surplus leaves before gangs, and gangs that owe their quota before those that do not.
        while let Some(first) = found.list.get(from) {
            let class = first.class();
            let rest = found.list.get(from..).unwrap_or_default();
            let length = rest.iter().take_while(|c| c.class() == class).count();
            let end = from.saturating_add(length);
            self.set_shares(asker, found, (from, end), &mut departed);
            from = end;
        }
        for number in departed {
            if let Some(candidate) = found.list.get(number) {
                let back = found.charge(candidate).iter();
                self.queues.shift_times(candidate.queue, back, 1);
            }
        }
        self.sort_candidates(&mut found.list);
    }

    /// Lets candidates of one class leave one after another, and sets the share of the queue of each.
    /// The departed candidates are added to `departed`.
    fn set_shares(
        &mut self,
        asker: &Preemptor<'_>,
        found: &mut VictimCandidates,
        (from, end): (usize, usize),
        departed: &mut Vec<usize>,
    ) {
        // The candidates of each queue. The next one to leave is the last.
        let mut remaining: BTreeMap<QueueIdx, Vec<usize>> = BTreeMap::new();
        for number in (from..end).rev() {
            let candidate = found.list.get(number);
            if let Some(other) = candidate.filter(|candidate| !candidate.same_queue) {
                remaining.entry(other.queue).or_default().push(number);
            }
        }
        let shares = |engine: &Self, queue: QueueIdx| {
            let tree = engine.queues.tree();
            tree.larger_share_path(asker.queue, asker.demand, queue)
        };
        // The shares in the heap are upper bounds, because shares fall while gangs leave.
        let next = remaining.iter().filter_map(|(queue, candidates)| {
            Some(NextVictim {
                shares: shares(self, *queue)?,
                candidate: Reverse(*candidates.last()?),
                queue: *queue,
            })
        });
        let mut heap: BinaryHeap<NextVictim> = next.collect();
        while let Some(next) = heap.pop() {
            let queue = next.queue;
            let Some(shares) = shares(self, queue) else {
                continue;
            };
            if shares < next.shares {
                heap.push(NextVictim { shares, ..next });
                continue;
            }
            let Reverse(number) = next.candidate;
            let candidates = remaining.get_mut(&queue);
            let following = candidates.and_then(|candidates| {
                candidates.pop();
                candidates.last().copied()
            });
            if let (Some(candidate), Some(share)) = (found.list.get_mut(number), shares.first()) {
                candidate.set_larger_share(*share, departed.len());
            }
            if let Some(candidate) = found.list.get(number) {
                let leaving = found.charge(candidate).iter();
                self.queues.shift_times(queue, leaving, -1);
                departed.push(number);
            }
            heap.extend(following.map(|number| NextVictim {
                shares,
                candidate: Reverse(number),
                queue,
            }));
        }
    }
}

/// The next victim of a queue. The greatest value leaves first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NextVictim {
    /// The shares of the queue and of those above it, from the top down.
    shares: Vec<FairShare>,
    /// The number of the candidate. If shares are equal, the candidate that is first in preemption
    /// order leaves first.
    candidate: Reverse<usize>,
    queue: QueueIdx,
}
