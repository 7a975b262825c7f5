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
        let larger_share = |engine: &Self, queue: QueueIdx| -> Option<FairShare> {
            let tree = engine.queues.tree();
            tree.larger_share(asker.queue, asker.demand, queue)
        };
        // A share in the heap is an upper bound, because shares fall while gangs leave.
        let shares = remaining.keys().filter_map(|queue| {
            let share = larger_share(self, *queue)?;
            Some((share, Reverse(*queue)))
        });
        let mut heap: BinaryHeap<(FairShare, Reverse<QueueIdx>)> = shares.collect();
        while let Some((bound, Reverse(queue))) = heap.pop() {
            let Some(share) = larger_share(self, queue) else {
                continue;
            };
            if share < bound {
                heap.push((share, Reverse(queue)));
                continue;
            }
            let Some(number) = remaining.get_mut(&queue).and_then(Vec::pop) else {
                continue;
            };
            if let Some(candidate) = found.list.get_mut(number) {
                candidate.set_larger_share(share);
            }
            if let Some(candidate) = found.list.get(number) {
                let leaving = found.charge(candidate).iter();
                self.queues.shift_times(queue, leaving, -1);
                departed.push(number);
            }
            heap.push((share, Reverse(queue)));
        }
    }
}
