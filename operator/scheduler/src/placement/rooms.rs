//! Counts how many pods of a gang would fit, node by node, while victims leave and come back.

use std::ops::Range;

use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use super::hold::Hold;
use super::place::Wish;
use crate::state::{Catalog, Demand, GroupShape, NodeIdx, Nodes, ResourceIdx};

/// Free capacity of the resources that a gang needs, and how many pods of each of its groups that
/// holds. It copies only these columns, so thousands of gangs can leave and come back at the cost
/// of placing one gang in the live state.
///
/// It is an upper bound for every placement, because groups may compete for the same room, and
/// shares for the same device. It is exact for a gang of one group without a topology request, if
/// no devices are shared.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    columns: SmallVec<[Column; 6]>,
    free: Free,
    groups: Vec<Group>,
}

/// A resource that the gang needs.
#[derive(Clone, Debug)]
struct Column {
    resource: ResourceIdx,
    /// The resource that changes together with it, if any.
    along: Option<ResourceIdx>,
}

/// Free capacity node by node, so that what changes together is adjacent in memory.
#[derive(Clone, Debug)]
struct Free {
    columns: usize,
    /// By node, then by column.
    amounts: Vec<i64>,
}

/// The most that becomes free when one pod leaves, by column.
pub(crate) type Freed = SmallVec<[i64; 6]>;

#[derive(Clone, Debug)]
struct Group {
    count: u32,
    /// By column.
    needs: SmallVec<[i64; 6]>,
    allows: FixedBitSet,
    /// By node.
    pods: Vec<u32>,
    total: u64,
}

impl Column {
    /// The most that becomes free of it when a pod leaves.
    fn freed(&self, nodes: &Nodes, demand: &Demand) -> i64 {
        let amounts = demand.iter().map(|(resource, need)| {
            if *resource == self.resource {
                return *need;
            }
            if self.along != Some(*resource) {
                return 0;
            }
            let along = nodes.along(*resource, i128::from(*need));
            along.map_or(0, |(_, amount)| i64::try_from(amount).unwrap_or(i64::MAX))
        });
        amounts.fold(0, i64::saturating_add)
    }
}

impl Free {
    fn places(&self, node: NodeIdx) -> Range<usize> {
        let from = node.at().saturating_mul(self.columns);
        from..from.saturating_add(self.columns)
    }

    /// The free amounts of a node, by column.
    fn on(&self, node: NodeIdx) -> &[i64] {
        self.amounts.get(self.places(node)).unwrap_or(&[])
    }

    fn on_mut(&mut self, node: NodeIdx) -> &mut [i64] {
        let places = self.places(node);
        self.amounts.get_mut(places).unwrap_or(&mut [])
    }
}

impl Group {
    fn new(nodes: &Nodes, catalog: &Catalog, wish: &Wish<'_>, shape: &GroupShape) -> Self {
        let mut allows = FixedBitSet::with_capacity(nodes.len());
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
            allows,
            pods: vec![0; nodes.len()],
            total: 0,
        }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeIdx> {
        self.allows.ones().map(NodeIdx::of)
    }

    /// How many of its pods fit into `free`, given by column.
    fn fits(&self, free: impl IntoIterator<Item = i64>) -> u32 {
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
    fn count(&mut self, free: &Free, node: NodeIdx) {
        let now = self.fits(free.on(node).iter().copied());
        if let Some(slot) = self.pods.get_mut(node.at()) {
            let before = std::mem::replace(slot, now);
            self.total = self.total.saturating_add(u64::from(now));
            self.total = self.total.saturating_sub(u64::from(before));
        }
    }

    fn is_enough(&self, pods: u64) -> bool {
        pods >= u64::from(self.count)
    }

    /// How many of its pods would fit on all its nodes if they needed only this resource.
    fn places(&self, free: &Free, column: usize, need: i64) -> u64 {
        let places = self.nodes().map(|node| {
            let free = free.on(node).get(column).map_or(0, |free| *free);
            let places = free.max(0).checked_div(need);
            u64::try_from(places.unwrap_or(0)).unwrap_or(0)
        });
        places.fold(0, u64::saturating_add)
    }

    /// The least that must become free, by resource, before more pods could fit.
    fn lacking(&self, columns: &[Column], free: &Free) -> Vec<(ResourceIdx, i128)> {
        let needed = || {
            let columns = columns.iter().zip(&self.needs).enumerate();
            columns.filter(|(_, (_, need))| **need > 0)
        };
        let alone = needed().filter_map(|(at, (column, need))| {
            let missing = u64::from(self.count).saturating_sub(self.places(free, at, *need));
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

impl Rooms {
    /// The current state of the nodes.
    pub(crate) fn new(nodes: &Nodes, catalog: &Catalog, wish: &Wish<'_>) -> Self {
        let columns = wish.shape.total.iter().map(|(resource, _)| Column {
            along: nodes.along(*resource, 0).map(|(along, _)| along),
            resource: *resource,
        });
        let columns: SmallVec<[Column; 6]> = columns.collect();
        let mut amounts = Vec::with_capacity(nodes.len().saturating_mul(columns.len()));
        for node in (0..nodes.len()).map(NodeIdx::of) {
            amounts.extend(columns.iter().map(|c| nodes.free(c.resource, node)));
        }
        let free = Free {
            columns: columns.len(),
            amounts,
        };
        let groups = wish.shape.groups.iter().map(|shape| {
            let mut group = Group::new(nodes, catalog, wish, shape);
            for node in (0..nodes.len()).map(NodeIdx::of) {
                if group.allows.contains(node.at()) {
                    group.count(&free, node);
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

    /// The rooms restricted to these nodes.
    pub(crate) fn within(&self, nodes: &FixedBitSet) -> Self {
        let mut rooms = self.clone();
        for group in &mut rooms.groups {
            group.allows.intersect_with(nodes);
            let pods = group.allows.ones().filter_map(|at| group.pods.get(at));
            group.total = pods
                .map(|pods| u64::from(*pods))
                .fold(0, u64::saturating_add);
        }
        rooms
    }

    /// True if a node could hold more pods of any group with `freed` more free, by column.
    pub(crate) fn gains_by(&self, node: NodeIdx, freed: &[i64]) -> bool {
        let free = self.free.on(node).iter().zip(freed);
        let free = free.map(|(free, freed)| free.saturating_add(*freed));
        let mut groups = self.groups.iter();
        groups.any(|group| {
            let now = group.pods.get(node.at()).copied().unwrap_or(0);
            group.allows.contains(node.at()) && group.fits(free.clone()) > now
        })
    }

    /// How many pods do not fit yet, summed over the groups as if each were alone.
    pub(crate) fn short(&self) -> u64 {
        let groups = self.groups.iter();
        let short = groups.map(|group| u64::from(group.count).saturating_sub(group.total));
        short.fold(0, u64::saturating_add)
    }

    /// True if any group may use the node.
    pub(crate) fn concerns(&self, node: NodeIdx) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|group| group.allows.contains(node.at()))
    }

    /// Amounts that become free when a pod with that demand leaves, by column.
    pub(crate) fn freed(&self, nodes: &Nodes, demand: &Demand) -> Freed {
        let columns = self.columns.iter();
        columns.map(|column| column.freed(nodes, demand)).collect()
    }

    /// Pods leave a node. Returns true if any group may use the node.
    pub(crate) fn free(&mut self, nodes: &Nodes, hold: &Hold) -> bool {
        let freed = self.freed(nodes, &hold.demand);
        self.leave(hold.node, &freed, hold.pods)
    }

    /// `pods` pods leave a node, each of which frees `freed`. Returns true if any group may use the
    /// node.
    pub(crate) fn leave(&mut self, node: NodeIdx, freed: &[i64], pods: u32) -> bool {
        self.change(node, freed, i64::from(pods))
    }

    /// The pods come back.
    pub(crate) fn come_back(&mut self, node: NodeIdx, freed: &[i64], pods: u32) {
        self.change(node, freed, i64::from(pods).saturating_neg());
    }

    fn change(&mut self, node: NodeIdx, freed: &[i64], pods: i64) -> bool {
        if !self.concerns(node) {
            return false;
        }
        for (free, freed) in self.free.on_mut(node).iter_mut().zip(freed) {
            *free = free.saturating_add(freed.saturating_mul(pods));
        }
        for group in &mut self.groups {
            if group.allows.contains(node.at()) {
                group.count(&self.free, node);
            }
        }
        true
    }

    /// True if every group alone would still fit after `pods` pods came back to a node. Each must
    /// fit now.
    pub(crate) fn bears(&self, node: NodeIdx, freed: &[i64], pods: u32) -> bool {
        let left = self.free.on(node).iter().zip(freed);
        let left = left.map(|(free, freed)| {
            let taken = freed.saturating_mul(i64::from(pods));
            free.saturating_sub(taken)
        });
        let mut groups = self.groups.iter();
        groups.all(|group| {
            let before = group.pods.get(node.at()).map_or(0, |pods| *pods);
            let spare = group.total.saturating_sub(u64::from(group.count));
            // The group has no pods here, or can lose all of them.
            u64::from(before) <= spare || {
                let lost = before.saturating_sub(group.fits(left.clone()));
                u64::from(lost) <= spare
            }
        })
    }

    /// How many more pods of the first group a node holds with `freed` more free, by column. For a
    /// gang of one group.
    pub(crate) fn gains(&self, node: NodeIdx, freed: &[i64]) -> u32 {
        let Some(group) = self.groups.iter().find(|group| group.count > 0) else {
            return 0;
        };
        let free = self.free.on(node).iter().zip(freed);
        let free = free.map(|(free, freed)| free.saturating_add(*freed));
        let now = group.pods.get(node.at()).copied().unwrap_or(0);
        match group.allows.contains(node.at()) {
            true => group.fits(free).saturating_sub(now),
            false => 0,
        }
    }

    /// How much more of each column the first group could use on a node.
    pub(crate) fn of_use(&self, node: NodeIdx) -> SmallVec<[i64; 6]> {
        let group = self.groups.iter().find(|group| group.count > 0);
        let needs = group.into_iter().flat_map(|group| {
            let all = i64::from(group.count);
            group.needs.iter().map(move |need| need.saturating_mul(all))
        });
        let free = self.free.on(node).iter();
        needs
            .zip(free)
            .map(|(need, free)| need.saturating_sub(*free).max(0))
            .collect()
    }

    /// True if every group alone would fit.
    pub(crate) fn enough(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.all(|group| group.is_enough(group.total))
    }

    /// The least that must become free of each resource before all pods of the first group fit, by
    /// column.
    pub(crate) fn missing(&self) -> SmallVec<[i128; 6]> {
        let Some(group) = self.groups.iter().find(|group| group.count > 0) else {
            return SmallVec::new();
        };
        let needs = group.needs.iter();
        let needs = needs.map(|need| i128::from(*need).saturating_mul(i128::from(group.count)));
        let mut missing: SmallVec<[i128; 6]> = needs.collect();
        for node in group.nodes() {
            for (missing, free) in missing.iter_mut().zip(self.free.on(node)) {
                *missing = missing.saturating_sub(i128::from((*free).max(0)));
            }
        }
        missing
    }

    /// True if every group alone would fit if all gangs left. Looks at every node.
    pub(crate) fn is_possible(&self, nodes: &Nodes) -> bool {
        let mut groups = self.groups.iter();
        groups.all(|group| {
            let pods = group.nodes().map(|node| {
                let columns = self.columns.iter();
                let free = columns.map(|column| nodes.free_without_gangs(column.resource, node));
                u64::from(group.fits(free))
            });
            group.is_enough(pods.fold(0, u64::saturating_add))
        })
    }

    /// The least that must become free of each resource, on any node, before more pods could fit
    /// than now. Any one of the resources may suffice.
    pub(crate) fn lacking(&self) -> Vec<(ResourceIdx, i128)> {
        let groups = self.groups.iter();
        let lacking = groups.filter(|group| !group.is_enough(group.total));
        lacking
            .flat_map(|group| group.lacking(&self.columns, &self.free))
            .collect()
    }
}
