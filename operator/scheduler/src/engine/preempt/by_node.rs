//! The order in which candidates are asked node by node.

use fixedbitset::FixedBitSet;

use super::field::{Ground, Held, Search};
use crate::preemption::policy::Rank;
use crate::state::{NodeIdx, Nodes};

/// Candidates that make room on a node, after those of its earlier steps.
struct Step {
    of: Rank,
    /// A pod.
    cost: u64,
    /// The node's place in the order of names.
    rank: u32,
    /// In the list of candidates by node.
    from: usize,
    to: usize,
}

impl Search<'_> {
    /// The candidates, those first that make room for a pod on one node most cheaply.
    pub(super) fn by_node(&self, ground: &Ground, nodes: &Nodes) -> Vec<usize> {
        let candidates = &self.candidates.list;
        let here = self.held_by_node(nodes.len());
        let mut steps: Vec<Step> = Vec::new();
        let mut gains: Vec<u32> = Vec::new();
        let mut start = 0_usize;
        for here in here.chunk_by(|a, b| a.0 == b.0) {
            let (first, end) = (start, start.saturating_add(here.len()));
            start = end;
            let Some((node, ..)) = here.first() else {
                continue;
            };
            let leaving = here.iter().map(|(_, _, h)| (self.freed(h), h.pods));
            ground.rooms.gains(*node, leaving, &mut gains);
            let (mut from, mut cost, mut had) = (first, 0_u64, 0_u32);
            // A later step is of use after the earlier ones alone.
            let mut at_least = (Rank::LOWEST, 0_u64);
            for ((at, (_, number, _)), gain) in (first..).zip(here).zip(&gains) {
                let Some(candidate) = candidates.get(*number) else {
                    continue;
                };
                cost = cost.saturating_add(candidate.lost_device_seconds);
                at_least.0 = at_least.0.max(candidate.rank());
                if *gain > had {
                    let pods = u64::from(gain.saturating_sub(had));
                    let each = cost.checked_div(pods).unwrap_or(cost);
                    at_least.1 = at_least.1.max(each);
                    let to = at.saturating_add(1);
                    steps.push(Step {
                        of: at_least.0,
                        cost: at_least.1,
                        rank: nodes.rank_of(*node),
                        from,
                        to,
                    });
                    (from, cost, had) = (to, 0, *gain);
                }
            }
        }
        // Stable: of one node the earlier step comes first.
        steps.sort_by_key(|step| (step.of, step.cost, step.rank));
        let first = steps.iter().flat_map(|step| {
            let here = here.get(step.from..step.to).unwrap_or(&[]);
            here.iter().map(|(_, number, _)| *number)
        });
        let mut seen = FixedBitSet::with_capacity(candidates.len());
        first
            .chain(0..candidates.len())
            .filter(|number| !seen.put(*number))
            .collect()
    }

    /// What each candidate holds, by node and there in the order of the candidates.
    fn held_by_node(&self, nodes: usize) -> Vec<(NodeIdx, usize, Held)> {
        // Where the next one of each node goes.
        let mut next = vec![0_usize; nodes];
        for held in self.held() {
            if let Some(count) = next.get_mut(held.node.at()) {
                *count = count.saturating_add(1);
            }
        }
        let mut sum = 0_usize;
        for count in &mut next {
            sum = sum.saturating_add(std::mem::replace(count, sum));
        }
        let Some(any) = self.held().first() else {
            return Vec::new();
        };
        let mut sorted = vec![(any.node, 0, *any); sum];
        for number in 0..self.candidates.list.len() {
            for held in self.held_by(number) {
                let Some(place) = next.get_mut(held.node.at()) else {
                    continue;
                };
                if let Some(slot) = sorted.get_mut(*place) {
                    *slot = (held.node, number, *held);
                }
                *place = place.saturating_add(1);
            }
        }
        sorted
    }
}
