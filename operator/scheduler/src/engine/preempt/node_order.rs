//! The order of candidates by node.
//!
//! For each node, the search computes the sets of candidates that make room for one pod, for two
//! pods and so on. It works as for a knapsack: it adds one candidate after another, and drops the
//! sets that free no more than a cheaper set.

use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use super::super::gang_table::NodeUsage;
use super::search_data::{EvictionNodes, VictimSearch};
use super::victim_loss::VictimLoss;
use crate::placement::FitCounter;
use crate::preemption::policy::VictimRank;
use crate::state::{NodeIdx, Nodes};

/// Maximum number of sets per node, after each added candidate. The search drops the sets with the
/// greatest loss beyond it.
pub(super) const MAX_SETS_PER_NODE: usize = 32;

/// Maximum number of candidates per node, in the order of candidates.
const MAX_CANDIDATES_PER_NODE: usize = 64;

/// Candidates on one node that leave together.
#[derive(Clone)]
struct NodeVictimSet {
    /// One bit for each candidate on the node, by its position in the list.
    members: u64,
    /// Freed amounts by column.
    freed: SmallVec<[i64; 6]>,
    loss: VictimLoss,
}

impl NodeVictimSet {
    fn with_candidate(
        &self,
        at: usize,
        freed: impl Iterator<Item = i64>,
        (rank, lost): (VictimRank, u64),
    ) -> Self {
        let mut loss = self.loss.clone();
        loss.add(rank, lost);
        let bit = u32::try_from(at).ok().and_then(|at| 1_u64.checked_shl(at));
        Self {
            members: self.members | bit.unwrap_or(0),
            freed: freed.collect(),
            loss,
        }
    }

    fn frees_no_more_than(&self, other: &Self) -> bool {
        let mut columns = self.freed.iter().zip(&other.freed);
        columns.all(|(own, other)| own <= other)
    }
}

/// A set that makes room for pods on a node.
struct NodeStep {
    /// The highest rank in the set, and the loss per pod.
    price: (VictimRank, u64),
    /// The position of the node by name.
    node: u32,
    candidates: SmallVec<[usize; 4]>,
}

impl VictimSearch<'_> {
    /// Returns the candidates, first those that make room for a pod on one node most cheaply.
    pub(super) fn order_by_node(&self, ground: &EvictionNodes, nodes: &Nodes) -> Vec<usize> {
        let all = self.usage_by_node(nodes.index_bound());
        let mut steps: Vec<NodeStep> = Vec::new();
        for here in all.chunk_by(|a, b| a.0 == b.0) {
            let Some((node, ..)) = here.first() else {
                continue;
            };
            if ground.useful_nodes.contains(node.at()) {
                self.add_steps(
                    &ground.rooms,
                    (*node, nodes.position_by_name(*node)),
                    here,
                    &mut steps,
                );
            }
        }
        // The sort is stable: on one node, the set for fewer pods comes first.
        steps.sort_by_key(|step| (step.price, step.node));
        let first = steps
            .iter()
            .flat_map(|step| step.candidates.iter().copied());
        let mut seen = FixedBitSet::with_capacity(self.candidates.list.len());
        first
            .chain(0..self.candidates.list.len())
            .filter(|number| !seen.put(*number))
            .collect()
    }

    /// Adds, for each number of pods, the cheapest set on a node that makes room for them.
    fn add_steps(
        &self,
        rooms: &FitCounter,
        (node, rank): (NodeIdx, u32),
        here: &[(NodeIdx, usize, NodeUsage)],
        steps: &mut Vec<NodeStep>,
    ) {
        let mut made_room_for = 0;
        for set in self.victim_sets(rooms, node, here) {
            let pods = rooms.count_gain(node, &set.freed);
            let Some((highest, lost)) = set.loss.total().filter(|_| pods > made_room_for) else {
                continue;
            };
            made_room_for = pods;
            let each = lost.checked_div(u64::from(pods)).unwrap_or(lost);
            let members = (0..64_u32)
                .zip(here)
                .filter(|(at, _)| set.members >> at & 1 == 1);
            steps.push(NodeStep {
                price: (highest, each),
                node: rank,
                candidates: members.map(|(_, (_, number, _))| *number).collect(),
            });
        }
    }

    /// Returns sets of the candidates on a node, the cheapest first, without sets that free no more
    /// than a cheaper set. The last set contains all candidates.
    fn victim_sets(
        &self,
        rooms: &FitCounter,
        node: NodeIdx,
        here: &[(NodeIdx, usize, NodeUsage)],
    ) -> Vec<NodeVictimSet> {
        let most = rooms.usable_amounts(node);
        let mut sets = vec![NodeVictimSet {
            members: 0,
            freed: most.iter().map(|_| 0).collect(),
            loss: VictimLoss::default(),
        }];
        for (at, (_, number, held)) in here.iter().take(MAX_CANDIDATES_PER_NODE).enumerate() {
            let Some(candidate) = self.candidates.list.get(*number) else {
                continue;
            };
            let lost = (candidate.rank(), candidate.lost_device_seconds);
            let freed = self.freed_amounts(held);
            let pods = i64::from(held.pods);
            let with = sets.iter().map(|set| {
                let sums = set.freed.iter().zip(freed).zip(&most);
                let sums = sums.map(|((sum, each), most)| {
                    sum.saturating_add(each.saturating_mul(pods)).min(*most)
                });
                set.with_candidate(at, sums, lost)
            });
            let with: Vec<NodeVictimSet> = with.collect();
            sets.extend(with);
            sets.sort_by(|a, b| a.loss.cmp(&b.loss));
            let mut kept: Vec<NodeVictimSet> =
                Vec::with_capacity(MAX_SETS_PER_NODE.saturating_add(1));
            for set in sets {
                if !kept.iter().any(|cheaper| set.frees_no_more_than(cheaper)) {
                    kept.push(set);
                }
            }
            if kept.len() > MAX_SETS_PER_NODE {
                // The last set frees most.
                let last = kept.pop();
                kept.truncate(MAX_SETS_PER_NODE.saturating_sub(1));
                kept.extend(last);
            }
            sets = kept;
        }
        sets
    }

    /// Returns the usage by each candidate, ordered by node, then by candidate.
    fn usage_by_node(&self, nodes: usize) -> Vec<(NodeIdx, usize, NodeUsage)> {
        // The index where the next entry of each node goes.
        let mut next = vec![0_usize; nodes];
        for held in self.candidates.all_node_usages() {
            if let Some(count) = next.get_mut(held.node.at()) {
                *count = count.saturating_add(1);
            }
        }
        let mut sum = 0_usize;
        for count in &mut next {
            sum = sum.saturating_add(std::mem::replace(count, sum));
        }
        let Some(any) = self.candidates.all_node_usages().first() else {
            return Vec::new();
        };
        let mut sorted = vec![(any.node, 0, *any); sum];
        for number in 0..self.candidates.list.len() {
            for held in self.candidate_usage(number) {
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
