//! How many pods of a gang would fit, node by node, as others leave and come back.

use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use super::hold::Hold;
use super::place::Wish;
use crate::state::{Catalog, GroupShape, NodeIdx, Nodes, ResourceIdx};

/// What is free of the resources that a gang needs, and how many pods of each of
/// its groups that holds. A copy of these columns alone: thousands of gangs come
/// and go in it for what placing one of them in the live state costs.
///
/// No placement can beat it: groups may want the same room, and shares the same
/// device. Where no device is shared it is exact for a gang of one group without a
/// wish for closeness.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    columns: Vec<Column>,
    groups: Vec<Group>,
}

/// What is free of one resource, by node.
#[derive(Clone, Debug)]
struct Column {
    resource: ResourceIdx,
    /// The one that it changes along with, if there is any.
    along: Option<ResourceIdx>,
    free: Vec<i64>,
}

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
    fn free(&self, node: NodeIdx) -> i64 {
        self.free.get(node.at()).copied().unwrap_or(0)
    }

    /// How much of it becomes free at most when a hold goes.
    fn freed(&self, nodes: &Nodes, hold: &Hold) -> i64 {
        let amounts = hold.demand.iter().map(|(resource, need)| {
            let amount = need.saturating_mul(i64::from(hold.pods));
            if *resource == self.resource {
                return amount;
            }
            if self.along != Some(*resource) {
                return 0;
            }
            let along = nodes.along(*resource, i128::from(amount));
            along.map_or(0, |(_, amount)| i64::try_from(amount).unwrap_or(i64::MAX))
        });
        amounts.fold(0, i64::saturating_add)
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

    /// How many of its pods fit into what is free, by column.
    fn fits(&self, free: impl Iterator<Item = i64>) -> u32 {
        let mut pods = i64::from(self.count);
        for (need, free) in self.needs.iter().zip(free) {
            let free = free.max(0);
            if *need > 0 && need.checked_mul(pods).is_none_or(|needs| needs > free) {
                pods = free.checked_div(*need).unwrap_or(0);
            }
        }
        u32::try_from(pods).unwrap_or(0)
    }

    /// Counts a node anew.
    fn count(&mut self, columns: &[Column], node: NodeIdx) {
        let now = self.fits(columns.iter().map(|column| column.free(node)));
        if let Some(slot) = self.pods.get_mut(node.at()) {
            let before = std::mem::replace(slot, now);
            self.total = self.total.saturating_add(u64::from(now));
            self.total = self.total.saturating_sub(u64::from(before));
        }
    }

    fn is_enough(&self, pods: u64) -> bool {
        pods >= u64::from(self.count)
    }

    /// How many of its pods all its nodes have enough of one resource for.
    fn places(&self, column: &Column, need: i64) -> u64 {
        let places = self.nodes().map(|node| {
            let places = column.free(node).max(0).checked_div(need);
            u64::try_from(places.unwrap_or(0)).unwrap_or(0)
        });
        places.fold(0, u64::saturating_add)
    }

    /// Of which resources how much must become free at least before more could fit.
    fn lacking(&self, columns: &[Column]) -> Vec<(ResourceIdx, i128)> {
        let needed = || {
            columns
                .iter()
                .zip(&self.needs)
                .filter(|(_, need)| **need > 0)
        };
        let alone = needed().filter_map(|(column, need)| {
            let missing = u64::from(self.count).saturating_sub(self.places(column, *need));
            // One unit each at least.
            (missing > 0).then(|| (column.resource, i128::from(missing)))
        });
        let alone: Vec<_> = alone.collect();
        if !alone.is_empty() {
            return alone;
        }
        needed().map(|(column, _)| (column.resource, 1)).collect()
    }
}

impl Rooms {
    /// As things are.
    pub(crate) fn new(nodes: &Nodes, catalog: &Catalog, wish: &Wish<'_>) -> Self {
        let columns = wish.shape.total.iter().map(|(resource, _)| {
            let at = (0..nodes.len()).map(NodeIdx::of);
            let free = match nodes.column(*resource) {
                Some(column) => at.map(|node| column.free(node)).collect(),
                None => at.map(|node| nodes.free(*resource, node)).collect(),
            };
            Column {
                along: nodes.along(*resource, 0).map(|(along, _)| along),
                resource: *resource,
                free,
            }
        });
        let columns: Vec<Column> = columns.collect();
        let groups = wish.shape.groups.iter().map(|shape| {
            let mut group = Group::new(nodes, catalog, wish, shape);
            for node in (0..nodes.len()).map(NodeIdx::of) {
                if group.allows.contains(node.at()) {
                    group.count(&columns, node);
                }
            }
            group
        });
        Self {
            groups: groups.collect(),
            columns,
        }
    }

    /// Whether any group may use the node.
    pub(crate) fn concerns(&self, node: NodeIdx) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|group| group.allows.contains(node.at()))
    }

    /// Pods leave a node. Says whether any group may use it.
    pub(crate) fn free(&mut self, nodes: &Nodes, hold: &Hold) -> bool {
        self.change(nodes, hold, i64::saturating_add)
    }

    /// They come back.
    pub(crate) fn take(&mut self, nodes: &Nodes, hold: &Hold) -> bool {
        self.change(nodes, hold, i64::saturating_sub)
    }

    fn change(&mut self, nodes: &Nodes, hold: &Hold, by: fn(i64, i64) -> i64) -> bool {
        if !self.concerns(hold.node) {
            return false;
        }
        for column in &mut self.columns {
            let freed = column.freed(nodes, hold);
            if let Some(free) = column.free.get_mut(hold.node.at()) {
                *free = by(*free, freed);
            }
        }
        for group in &mut self.groups {
            if group.allows.contains(hold.node.at()) {
                group.count(&self.columns, hold.node);
            }
        }
        true
    }

    /// As some leave one node after the other: how many more pods of the first group
    /// it then holds than now. For a gang of one group.
    pub(crate) fn gains<'h>(
        &self,
        nodes: &Nodes,
        node: NodeIdx,
        leaving: impl Iterator<Item = &'h Hold>,
    ) -> Vec<u32> {
        let Some(group) = self.groups.iter().find(|group| group.count > 0) else {
            return Vec::new();
        };
        if !group.allows.contains(node.at()) {
            return leaving.map(|_| 0).collect();
        }
        let now = group.pods.get(node.at()).copied().unwrap_or(0);
        let free = self.columns.iter().map(|column| column.free(node));
        let mut free: SmallVec<[i64; 6]> = free.collect();
        let gain = |hold: &Hold| {
            for (column, free) in self.columns.iter().zip(&mut free) {
                *free = free.saturating_add(column.freed(nodes, hold));
            }
            group.fits(free.iter().copied()).saturating_sub(now)
        };
        leaving.map(gain).collect()
    }

    /// Whether every group alone would fit.
    pub(crate) fn enough(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.all(|group| group.is_enough(group.total))
    }

    /// Whether every group alone would fit if all gangs left. Costs a look at every
    /// node.
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

    /// Of which resources how much must become free at least, anywhere, before
    /// more could fit than now: any one of them may do.
    pub(crate) fn lacking(&self) -> Vec<(ResourceIdx, i128)> {
        let groups = self.groups.iter();
        let lacking = groups.filter(|group| !group.is_enough(group.total));
        lacking
            .flat_map(|group| group.lacking(&self.columns))
            .collect()
    }
}
