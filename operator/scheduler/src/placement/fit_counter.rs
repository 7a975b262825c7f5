//! Counts how many pods of a gang would fit, node by node, while victims leave and come back.

use std::ops::Range;

use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use super::request::PlacementRequest;
use super::slice_totals::{PodChange, SliceTotals};
use super::topology::GangTopology;
use super::undo::NodeCharge;
use crate::state::{Catalog, GroupShape, NodeIdx, Nodes, PodDemand, ResourceIdx};

/// Free capacity of the resources that a gang needs, and the number of pods of each group that fit
/// into it. It copies only these columns. So thousands of gangs can leave and come back at the cost
/// of placing one gang in the live state.
///
/// Its counts are upper bounds for every placement, because groups may compete for the same room,
/// and shares for the same device. They are exact for a gang of one group that need not be in one
/// domain, if no devices are shared. The group may have slices: then only pods in whole slices
/// count.
#[derive(Clone, Debug)]
pub(crate) struct FitCounter {
    columns: SmallVec<[CountedResource; 6]>,
    free: FreeByNode,
    groups: Vec<GroupFitCount>,
}

/// A resource that the gang needs.
#[derive(Clone, Debug)]
struct CountedResource {
    resource: ResourceIdx,
    /// The resource that changes together with this one, if any.
    coupled: Option<ResourceIdx>,
}

/// Free capacity node by node, so that amounts that change together are adjacent in memory.
#[derive(Clone, Debug)]
struct FreeByNode {
    columns: usize,
    /// By node, then by column.
    amounts: Vec<i64>,
}

/// The most that becomes free when one pod leaves, by column.
pub(crate) type FreedAmounts = SmallVec<[i64; 6]>;

#[derive(Clone, Debug)]
struct GroupFitCount {
    count: u32,
    /// By column.
    needs: SmallVec<[i64; 6]>,
    allowed_nodes: FixedBitSet,
    /// By node.
    pods: Vec<u32>,
    /// None: the group is not split.
    slices: Option<SliceTotals>,
    /// The pods of all nodes; of a group with slices, those in whole slices.
    total: u64,
}

impl CountedResource {
    /// Returns the most of this resource that becomes free when a pod leaves.
    fn freed_by(&self, nodes: &Nodes, demand: &PodDemand) -> i64 {
        let amounts = demand.iter().map(|(resource, need)| {
            if *resource == self.resource {
                return *need;
            }
            if self.coupled != Some(*resource) {
                return 0;
            }
            let along = nodes.coupled_resource(*resource, i128::from(*need));
            along.map_or(0, |(_, amount)| i64::try_from(amount).unwrap_or(i64::MAX))
        });
        amounts.fold(0, i64::saturating_add)
    }
}

impl FreeByNode {
    fn range(&self, node: NodeIdx) -> Range<usize> {
        let from = node.at().saturating_mul(self.columns);
        from..from.saturating_add(self.columns)
    }

    /// Returns the free amounts of a node, by column.
    fn node_amounts(&self, node: NodeIdx) -> &[i64] {
        self.amounts.get(self.range(node)).unwrap_or(&[])
    }

    fn node_amounts_mut(&mut self, node: NodeIdx) -> &mut [i64] {
        let places = self.range(node);
        self.amounts.get_mut(places).unwrap_or(&mut [])
    }
}

impl GroupFitCount {
    fn new(
        nodes: &Nodes,
        catalog: &Catalog,
        wish: &PlacementRequest<'_>,
        (shape, slices): (&GroupShape, Option<SliceTotals>),
    ) -> Self {
        let mut allows = FixedBitSet::with_capacity(nodes.index_bound());
        let signature = catalog.signature(shape.signature);
        for node in signature.into_iter().flat_map(|s| s.nodes()) {
            allows.insert(node.at());
        }
        for node in wish.excluded {
            allows.set(node.at(), false);
        }
        let total = wish.shape.total.iter();
        Self {
            count: shape.count,
            needs: total.map(|(resource, _)| shape.need(*resource)).collect(),
            allowed_nodes: allows,
            pods: vec![0; nodes.index_bound()],
            slices,
            total: 0,
        }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeIdx> {
        self.allowed_nodes.ones().map(NodeIdx::of)
    }

    /// Returns how many of the group's pods fit into `free`, given by column.
    fn count_fitting(&self, free: impl IntoIterator<Item = i64>) -> u32 {
        let mut pods = i64::from(self.count);
        for (need, free) in self.needs.iter().zip(free) {
            let free = free.max(0);
            if *need > 0 && need.checked_mul(pods).is_none_or(|needs| needs > free) {
                pods = free.checked_div(*need).unwrap_or(0);
            }
        }
        u32::try_from(pods).unwrap_or(0)
    }

    /// Counts the pods of a node again.
    fn recount(&mut self, free: &FreeByNode, node: NodeIdx) {
        let now = self.count_fitting(free.node_amounts(node).iter().copied());
        if let Some(slot) = self.pods.get_mut(node.at()) {
            let before = u64::from(std::mem::replace(slot, now));
            let change = PodChange {
                before,
                after: u64::from(now),
            };
            self.total = whole_change(&mut self.slices, node, change).of(self.total);
        }
    }

    /// Sums up the pods of all allowed nodes again.
    fn recount_total(&mut self) {
        let mut slices = self.slices.take();
        let pods = self.nodes().map(|node| {
            let pods = self.pods.get(node.at()).copied().unwrap_or(0);
            (node, pods)
        });
        self.total = sum_pods(&mut slices, pods);
        self.slices = slices;
    }

    /// Returns how much the total falls if the pods of a node fall.
    fn lost_pods(&self, node: NodeIdx, (before, after): (u32, u32)) -> u64 {
        let change = PodChange {
            before: u64::from(before),
            after: u64::from(after),
        };
        let slices = self.slices.as_ref();
        let whole = slices.map_or(change, |slices| slices.whole_change(node, change));
        whole.before.saturating_sub(whole.after)
    }

    fn has_room_for(&self, pods: u64) -> bool {
        pods >= u64::from(self.count)
    }

    /// Returns how many of the group's pods would fit on all its nodes if they needed only this
    /// resource.
    fn count_places(&self, free: &FreeByNode, column: usize, need: i64) -> u64 {
        let places = self.nodes().map(|node| {
            let free = free.node_amounts(node).get(column).map_or(0, |free| *free);
            let places = free.max(0).checked_div(need);
            u64::try_from(places.unwrap_or(0)).unwrap_or(0)
        });
        places.fold(0, u64::saturating_add)
    }

    /// Returns the least of each resource to free before more pods could fit.
    fn least_missing(
        &self,
        columns: &[CountedResource],
        free: &FreeByNode,
    ) -> Vec<(ResourceIdx, i128)> {
        let needed = || {
            let columns = columns.iter().zip(&self.needs).enumerate();
            columns.filter(|(_, (_, need))| **need > 0)
        };
        let alone = needed().filter_map(|(at, (column, need))| {
            let missing = u64::from(self.count).saturating_sub(self.count_places(free, at, *need));
            // Each missing pod needs at least one unit.
            (missing > 0).then(|| (column.resource, i128::from(missing)))
        });
        let alone: Vec<_> = alone.collect();
        if !alone.is_empty() {
            return alone;
        }
        needed()
            .map(|(_, (column, _))| (column.resource, 1))
            .collect()
    }
}

impl FitCounter {
    /// Counts on the current state of the nodes.
    pub(crate) fn new(nodes: &Nodes, catalog: &Catalog, wish: &PlacementRequest<'_>) -> Self {
        let columns = wish
            .shape
            .total
            .iter()
            .map(|(resource, _)| CountedResource {
                coupled: nodes.coupled_resource(*resource, 0).map(|(along, _)| along),
                resource: *resource,
            });
        let columns: SmallVec<[CountedResource; 6]> = columns.collect();
        let mut amounts = Vec::with_capacity(nodes.index_bound().saturating_mul(columns.len()));
        for node in (0..nodes.index_bound()).map(NodeIdx::of) {
            amounts.extend(columns.iter().map(|c| nodes.free(c.resource, node)));
        }
        let free = FreeByNode {
            columns: columns.len(),
            amounts,
        };
        let topology = GangTopology::for_shape(nodes, wish.shape);
        let groups = wish.shape.groups.iter().enumerate().map(|(at, shape)| {
            let slices = topology.as_ref().and_then(|t| t.slices(wish.shape, at));
            let slices = slices.map(SliceTotals::new);
            let mut group = GroupFitCount::new(nodes, catalog, wish, (shape, slices));
            for node in (0..nodes.index_bound()).map(NodeIdx::of) {
                if group.allowed_nodes.contains(node.at()) {
                    group.recount(&free, node);
                }
            }
            group
        });
        Self {
            groups: groups.collect(),
            free,
            columns,
        }
    }

    /// Returns the counter restricted to these nodes.
    pub(crate) fn within(&self, nodes: &FixedBitSet) -> Self {
        let mut rooms = self.clone();
        for group in &mut rooms.groups {
            group.allowed_nodes.intersect_with(nodes);
            group.recount_total();
        }
        rooms
    }

    /// True if a node could hold more pods of any group with `freed` more free, by column.
    pub(crate) fn has_gain(&self, node: NodeIdx, freed: &[i64]) -> bool {
        let free = self.free.node_amounts(node).iter().zip(freed);
        let free = free.map(|(free, freed)| free.saturating_add(*freed));
        let mut groups = self.groups.iter();
        groups.any(|group| {
            let now = group.pods.get(node.at()).copied().unwrap_or(0);
            group.allowed_nodes.contains(node.at()) && group.count_fitting(free.clone()) > now
        })
    }

    /// Returns how many pods do not fit yet, summed over the groups as if each were alone.
    pub(crate) fn missing_pods(&self) -> u64 {
        let groups = self.groups.iter();
        let short = groups.map(|group| u64::from(group.count).saturating_sub(group.total));
        short.fold(0, u64::saturating_add)
    }

    /// True if any group may use the node.
    pub(crate) fn may_use(&self, node: NodeIdx) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|group| group.allowed_nodes.contains(node.at()))
    }

    /// Returns the amounts that become free when a pod with that demand leaves, by column.
    pub(crate) fn freed_amounts(&self, nodes: &Nodes, demand: &PodDemand) -> FreedAmounts {
        let columns = self.columns.iter();
        columns
            .map(|column| column.freed_by(nodes, demand))
            .collect()
    }

    /// Takes pods off a node. Returns true if any group may use the node.
    pub(crate) fn release_charge(&mut self, nodes: &Nodes, hold: &NodeCharge) -> bool {
        let freed = self.freed_amounts(nodes, &hold.demand);
        self.release_pods(hold.node, &freed, hold.pods)
    }

    /// Takes `pods` pods off a node, each of which frees `freed`. Returns true if any group may use
    /// the node.
    pub(crate) fn release_pods(&mut self, node: NodeIdx, freed: &[i64], pods: u32) -> bool {
        self.apply_change(node, freed, i64::from(pods))
    }

    /// Puts the pods back on the node.
    pub(crate) fn charge_pods(&mut self, node: NodeIdx, freed: &[i64], pods: u32) {
        self.apply_change(node, freed, i64::from(pods).saturating_neg());
    }

    fn apply_change(&mut self, node: NodeIdx, freed: &[i64], pods: i64) -> bool {
        if !self.may_use(node) {
            return false;
        }
        for (free, freed) in self.free.node_amounts_mut(node).iter_mut().zip(freed) {
            *free = free.saturating_add(freed.saturating_mul(pods));
        }
        for group in &mut self.groups {
            if group.allowed_nodes.contains(node.at()) {
                group.recount(&self.free, node);
            }
        }
        true
    }

    /// True if every group alone would still fit after `pods` pods came back to a node. Each must
    /// fit now.
    pub(crate) fn can_charge(&self, node: NodeIdx, freed: &[i64], pods: u32) -> bool {
        let left = self.free.node_amounts(node).iter().zip(freed);
        let left = left.map(|(free, freed)| {
            let taken = freed.saturating_mul(i64::from(pods));
            free.saturating_sub(taken)
        });
        let mut groups = self.groups.iter();
        groups.all(|group| {
            let before = group.pods.get(node.at()).map_or(0, |pods| *pods);
            let spare = group.total.saturating_sub(u64::from(group.count));
            // The group has no room for pods here, or can lose all of it.
            u64::from(before) <= spare && group.slices.is_none() || {
                let after = group.count_fitting(left.clone());
                group.lost_pods(node, (before, after)) <= spare
            }
        })
    }

    /// Returns how many more pods of the first group a node holds with `freed` more free, by
    /// column. Valid only for a gang of one group.
    pub(crate) fn count_gain(&self, node: NodeIdx, freed: &[i64]) -> u32 {
        let Some(group) = self.groups.iter().find(|group| group.count > 0) else {
            return 0;
        };
        let free = self.free.node_amounts(node).iter().zip(freed);
        let free = free.map(|(free, freed)| free.saturating_add(*freed));
        let now = group.pods.get(node.at()).copied().unwrap_or(0);
        match group.allowed_nodes.contains(node.at()) {
            true => group.count_fitting(free).saturating_sub(now),
            false => 0,
        }
    }

    /// Returns how much more of each column the first group could use on a node.
    pub(crate) fn usable_amounts(&self, node: NodeIdx) -> SmallVec<[i64; 6]> {
        let group = self.groups.iter().find(|group| group.count > 0);
        let needs = group.into_iter().flat_map(|group| {
            let all = i64::from(group.count);
            group.needs.iter().map(move |need| need.saturating_mul(all))
        });
        let free = self.free.node_amounts(node).iter();
        needs
            .zip(free)
            .map(|(need, free)| need.saturating_sub(*free).max(0))
            .collect()
    }

    /// True if every group alone would fit.
    pub(crate) fn has_enough(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.all(|group| group.has_room_for(group.total))
    }

    /// Returns the least of each resource to free before all pods of the first group fit, by
    /// column.
    pub(crate) fn missing_amounts(&self) -> SmallVec<[i128; 6]> {
        let Some(group) = self.groups.iter().find(|group| group.count > 0) else {
            return SmallVec::new();
        };
        let needs = group.needs.iter();
        let needs = needs.map(|need| i128::from(*need).saturating_mul(i128::from(group.count)));
        let mut missing: SmallVec<[i128; 6]> = needs.collect();
        for node in group.nodes() {
            for (missing, free) in missing.iter_mut().zip(self.free.node_amounts(node)) {
                *missing = missing.saturating_sub(i128::from((*free).max(0)));
            }
        }
        missing
    }

    /// True if every group alone would fit if all gangs left. Visits every node.
    pub(crate) fn fits_without_gangs(&self, nodes: &Nodes) -> bool {
        let mut groups = self.groups.iter();
        groups.all(|group| {
            let pods = group.nodes().map(|node| {
                let columns = self.columns.iter();
                let free = columns.map(|column| nodes.free_without_gangs(column.resource, node));
                (node, group.count_fitting(free))
            });
            group.has_room_for(sum_pods(&mut group.slices.clone(), pods))
        })
    }

    /// Returns the least of each resource to free, on any node, before more pods could fit than
    /// now. A single one of the resources may suffice.
    pub(crate) fn least_missing(&self) -> Vec<(ResourceIdx, i128)> {
        let groups = self.groups.iter();
        let lacking = groups.filter(|group| !group.has_room_for(group.total));
        lacking
            .flat_map(|group| group.least_missing(&self.columns, &self.free))
            .collect()
    }
}

/// Returns the sum of the pods of these nodes; of a group with slices, of those in whole slices.
/// Counts the slices anew.
fn sum_pods(slices: &mut Option<SliceTotals>, pods: impl Iterator<Item = (NodeIdx, u32)>) -> u64 {
    if let Some(slices) = slices {
        slices.clear();
    }
    pods.fold(0, |total, (node, pods)| {
        let change = PodChange {
            before: 0,
            after: u64::from(pods),
        };
        whole_change(slices, node, change).of(total)
    })
}

/// Changes the pods of a node, and returns the change of the total.
fn whole_change(slices: &mut Option<SliceTotals>, node: NodeIdx, change: PodChange) -> PodChange {
    match slices {
        None => change,
        Some(slices) => slices.apply(node, change),
    }
}
