//! The data of one search for victims.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::super::Engine;
use super::super::gang_table::NodeUsage;
use super::candidates::{VictimCandidate, VictimCandidates};
use super::preemptor::Preemptor;
use super::victim_loss::VictimLoss;
use crate::placement::{
    FitCounter, FreedAmounts, GangTopology, NodeCharge, PlacementRequest, asks_for_topology,
};
use crate::quota::Demand;
use crate::state::{NodeIdx, ResourceIdx};

/// One search for victims.
pub(super) struct VictimSearch<'a> {
    pub(super) preemptor: Preemptor<'a>,
    pub(super) request: PlacementRequest<'a>,
    pub(super) candidates: &'a VictimCandidates,
    /// The different demands of the candidates' pods.
    kinds: Vec<DemandKind>,
    /// The position in `kinds` by the number of the demand.
    positions: Vec<Option<u32>>,
    /// Gangs and pods that leave anyway.
    pub(super) departing: Vec<NodeCharge>,
    /// The nodes on which victims may make room.
    pub(super) eviction_nodes: EvictionNodes,
    /// True if pods have shares of devices: the free room then depends on the order in which they
    /// leave.
    shared: bool,
}

/// Nodes on which victims may make room.
pub(super) struct EvictionNodes {
    /// The room after the departures that happen anyway.
    pub(super) rooms: FitCounter,
    /// Nodes on which departing candidates may help.
    pub(super) useful_nodes: FixedBitSet,
    /// True if counting pods is exact: the gang fits if there is room for all its pods.
    pub(super) is_count_exact: bool,
}

/// Pods with the same demand.
struct DemandKind {
    demand: Arc<Vec<(ResourceIdx, i64)>>,
    freed: FreedAmounts,
}

impl Engine {
    pub(super) fn victim_search<'a>(
        &mut self,
        asker: Preemptor<'a>,
        wish: PlacementRequest<'a>,
        candidates: &'a VictimCandidates,
    ) -> VictimSearch<'a> {
        self.packing.prepare(&mut self.nodes, &mut self.catalog);
        self.catalog.refresh(wish.shape, &self.nodes);
        let mut rooms = FitCounter::new(&self.nodes, &self.catalog, &wish);
        let going = self.departing_usage(&asker.gang.id);
        for hold in &going {
            rooms.release_charge(&self.nodes, hold);
        }
        let mut kinds: Vec<DemandKind> = Vec::new();
        let mut positions: Vec<Option<u32>> = Vec::new();
        for part in candidates.all_node_usages() {
            let number = part.demand.at();
            if positions.len() <= number {
                positions.resize(number.saturating_add(1), None);
            }
            if let Some(position) = positions.get_mut(number).filter(|known| known.is_none()) {
                *position = u32::try_from(kinds.len()).ok();
                let demand = self.catalog.demand(part.demand);
                let freed = rooms.freed_amounts(&self.nodes, &demand);
                kinds.push(DemandKind { demand, freed });
            }
        }
        let groups = wish.shape.groups.iter().filter(|g| g.count > 0).count();
        let anywhere = !asks_for_topology(wish.shape)
            || GangTopology::for_shape(&self.nodes, wish.shape)
                .is_some_and(|close| close.is_decided_by_counts(wish.shape));
        let shared = !self.catalog.shares().is_empty();
        let mut search = VictimSearch {
            eviction_nodes: EvictionNodes {
                is_count_exact: groups < 2 && !shared && anywhere,
                useful_nodes: FixedBitSet::with_capacity(self.nodes.index_bound()),
                rooms,
            },
            shared,
            preemptor: asker,
            request: wish,
            candidates,
            kinds,
            positions,
            departing: going,
        };
        search.eviction_nodes.useful_nodes =
            search.useful_nodes(self.nodes.index_bound(), groups < 2 && !shared);
        search
    }
}

impl<'a> VictimSearch<'a> {
    /// Returns a candidate and its charge.
    pub(super) fn candidate(&self, number: usize) -> Option<(&'a VictimCandidate, &'a Demand)> {
        let candidate = self.candidates.list.get(number)?;
        Some((candidate, self.candidates.charge(candidate)))
    }

    /// Returns the usage by a candidate, node by node.
    pub(super) fn candidate_usage(&self, number: usize) -> &[NodeUsage] {
        let candidate = self.candidates.list.get(number);
        candidate.map_or(&[], |candidate| self.candidates.node_usages(candidate))
    }

    fn kind(&self, held: &NodeUsage) -> Option<&DemandKind> {
        let position = (*self.positions.get(held.demand.at())?)?;
        self.kinds.get(position as usize)
    }

    /// True if counting pods by free amounts is exact for one group.
    pub(super) fn is_count_exact(&self) -> bool {
        !self.shared
    }

    /// Returns the nodes that could hold more pods with all candidates gone. If counting one group
    /// is not exact, returns all nodes that any group may use. The reason: several groups compete
    /// for the same room, and shares for the same device.
    fn useful_nodes(&self, nodes: usize, one: bool) -> FixedBitSet {
        if !one {
            let nodes = (0..nodes).map(NodeIdx::of);
            let concerned = nodes.filter(|node| self.eviction_nodes.rooms.may_use(*node));
            return concerned.map(NodeIdx::at).collect();
        }
        let columns = self.kinds.iter().map(|kind| kind.freed.len()).max();
        let columns = columns.unwrap_or(0);
        let mut freed = vec![0_i64; nodes.saturating_mul(columns)];
        let place = |node: NodeIdx| {
            let from = node.at().saturating_mul(columns);
            from..from.saturating_add(columns)
        };
        for held in self.candidates.all_node_usages() {
            let sums = freed.get_mut(place(held.node)).unwrap_or(&mut []);
            for (sum, each) in sums.iter_mut().zip(self.freed_amounts(held)) {
                *sum = sum.saturating_add(each.saturating_mul(i64::from(held.pods)));
            }
        }
        let gains = |node: &NodeIdx| {
            let freed = freed.get(place(*node)).unwrap_or(&[]);
            self.eviction_nodes.rooms.has_gain(*node, freed)
        };
        let nodes = (0..nodes).map(NodeIdx::of).filter(gains);
        nodes.map(NodeIdx::at).collect()
    }

    /// Returns the amounts that a pod of this kind frees, by column.
    pub(super) fn freed_amounts(&self, held: &NodeUsage) -> &[i64] {
        self.kind(held).map_or(&[], |kind| &kind.freed)
    }

    /// Returns the usage by these candidates together.
    pub(super) fn departing_charges(&self, out: &FixedBitSet) -> Vec<NodeCharge> {
        let held = out.ones().flat_map(|number| self.candidate_usage(number));
        let mut held: Vec<NodeUsage> = held.copied().collect();
        if !self.shared {
            // Equal pods on a node leave together.
            held.sort_by_key(|held| (held.node, held.demand));
            held.dedup_by(|next, kept| {
                let same = (next.node, next.demand) == (kept.node, kept.demand);
                if same {
                    kept.pods = kept.pods.saturating_add(next.pods);
                }
                same
            });
        }
        let hold = |held: NodeUsage| {
            Some(NodeCharge {
                node: held.node,
                demand: Arc::clone(&self.kind(&held)?.demand),
                pods: held.pods,
                in_placed_gang: true,
            })
        };
        held.into_iter().filter_map(hold).collect()
    }

    /// True if certainly no other set of victims is cheaper: the set has the fewest possible gangs,
    /// they are the cheapest candidates, and they have one rank. Valid only for a gang of one
    /// group.
    pub(super) fn is_cheapest(&self, out: &FixedBitSet) -> bool {
        let few = out.count_ones(..);
        let list = self.candidates.list.get(..few).unwrap_or(&[]);
        let (Some(first), Some(last)) = (list.first(), list.last()) else {
            return false;
        };
        if first.rank() != last.rank() || out.maximum() != few.checked_sub(1) {
            return false;
        }
        let missing = self.eviction_nodes.rooms.missing_amounts();
        let missing = (0_usize..).zip(missing).filter(|(_, missing)| *missing > 0);
        let at_least = missing.map(|(column, missing)| {
            // The most that one candidate frees.
            let all = (0..self.candidates.list.len()).map(|number| self.max_freed(number, column));
            let most = i128::from(all.max().unwrap_or(0));
            let whole = missing.checked_div(most).unwrap_or(0);
            let rest = missing.checked_rem(most).unwrap_or(0);
            whole.saturating_add(i128::from(rest > 0))
        });
        let at_least = at_least.max().and_then(|n| usize::try_from(n).ok());
        at_least.is_some_and(|n| few <= n)
    }

    /// Returns the most that a candidate frees in a column.
    pub(super) fn max_freed(&self, number: usize, column: usize) -> i64 {
        let all = self.candidate_usage(number).iter().map(|held| {
            let freed = self
                .freed_amounts(held)
                .get(column)
                .map_or(0, |freed| *freed);
            freed.saturating_mul(i64::from(held.pods))
        });
        all.fold(0, i64::saturating_add)
    }

    /// Returns the loss of a set of candidates.
    pub(super) fn total_loss(&self, out: &FixedBitSet) -> VictimLoss {
        let mut loss = VictimLoss::default();
        for candidate in out.ones().filter_map(|n| self.candidates.list.get(n)) {
            loss.add(candidate.rank(), candidate.lost_device_seconds);
        }
        loss
    }

    /// Returns the loss of one candidate alone.
    pub(super) fn candidate_loss(&self, number: usize) -> VictimLoss {
        let mut loss = VictimLoss::default();
        if let Some(candidate) = self.candidates.list.get(number) {
            loss.add(candidate.rank(), candidate.lost_device_seconds);
        }
        loss
    }
}
