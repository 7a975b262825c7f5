//! The order of candidates by domain, for a group with slices.
//!
//! Single nodes make no room for a slice. So the search goes through the candidates in each domain
//! of the outermost slices, and finds how much it costs there to make room for one slice, for two
//! slices and so on.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use super::search_data::{EvictionNodes, VictimSearch};
use super::victim_loss::VictimLoss;
use crate::placement::GangTopology;
use crate::preemption::policy::VictimRank;
use crate::state::Nodes;

/// Candidates that together make room for more slices in a domain.
struct SliceStep {
    /// The highest rank among them, and the loss per pod.
    price: (VictimRank, u64),
    candidates: Vec<usize>,
}

impl VictimSearch<'_> {
    /// Returns the candidates, first those that make room for a slice in one domain most cheaply.
    /// None: the group has no slices.
    pub(super) fn order_by_slice(
        &self,
        ground: &EvictionNodes,
        nodes: &Nodes,
    ) -> Option<Vec<usize>> {
        let shape = self.request.shape;
        // Most gangs have no slices: then the topology need not be resolved.
        if shape.groups.iter().all(|group| group.slices.is_empty()) {
            return None;
        }
        let topology = GangTopology::for_shape(nodes, shape)?;
        let mut groups = 0..shape.groups.len();
        let split = groups.find_map(|at| topology.slices(shape, at))?;
        let depth = split.slices.layers().first()?.depth;
        let mut by_domain: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for number in 0..self.candidates.list.len() {
            for held in self.candidate_usage(number) {
                let is_useful = ground.useful_nodes.contains(held.node.at());
                let domain = split.layout.domain(depth, held.node);
                let Some(domain) = domain.filter(|_| is_useful) else {
                    continue;
                };
                let here = by_domain.entry(domain).or_default();
                if here.last() != Some(&number) {
                    here.push(number);
                }
            }
        }
        let mut rooms = ground.rooms.clone();
        let mut steps: Vec<SliceStep> = Vec::new();
        for here in by_domain.values() {
            let mut step: Vec<usize> = Vec::new();
            for number in here {
                let before = rooms.missing_pods();
                for held in self.candidate_usage(*number) {
                    rooms.release_pods(held.node, self.freed_amounts(held), held.pods);
                }
                step.push(*number);
                let gained = before.saturating_sub(rooms.missing_pods());
                if gained > 0 {
                    let candidates = std::mem::take(&mut step);
                    steps.extend(self.slice_step(candidates, gained));
                }
            }
            for number in here {
                for held in self.candidate_usage(*number) {
                    rooms.charge_pods(held.node, self.freed_amounts(held), held.pods);
                }
            }
        }
        // The sort is stable: in one domain, the first slice comes first.
        steps.sort_by_key(|step| step.price);
        let first = steps.into_iter().flat_map(|step| step.candidates);
        let mut seen = FixedBitSet::with_capacity(self.candidates.list.len());
        let all = first.chain(0..self.candidates.list.len());
        Some(all.filter(|number| !seen.put(*number)).collect())
    }

    fn slice_step(&self, candidates: Vec<usize>, gained: u64) -> Option<SliceStep> {
        let mut loss = VictimLoss::default();
        for candidate in candidates
            .iter()
            .filter_map(|n| self.candidates.list.get(*n))
        {
            loss.add(candidate.rank(), candidate.lost_device_seconds);
        }
        let (highest, lost) = loss.total()?;
        Some(SliceStep {
            price: (highest, lost.checked_div(gained).unwrap_or(lost)),
            candidates,
        })
    }
}
