//! How many pods of a gang would fit, node by node, as others leave and come back.

use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use crate::state::{Catalog, Demand, NodeIdx, Nodes, ResourceIdx, Shape};

/// What is free of the resources that a gang needs, and how many pods of each of
/// its groups that holds. A copy of these columns alone: thousands of gangs come
/// and go in it for what placing one of them in the live state costs.
///
/// For a gang of one group without a wish for closeness it is exact; else it is a
/// bound that no placement can beat.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    columns: Vec<(ResourceIdx, Vec<i64>)>,
    groups: Vec<Group>,
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

impl Group {
    /// With so much more of each column.
    fn fits(&self, columns: &[(ResourceIdx, Vec<i64>)], node: usize, more: &[i64]) -> u32 {
        let mut pods = i64::from(self.count);
        for (column, ((_, free), need)) in columns.iter().zip(&self.needs).enumerate() {
            if *need == 0 {
                continue;
            }
            let more = more.get(column).copied().unwrap_or(0);
            let free = free.get(node).copied().unwrap_or(0);
            let free = free.saturating_add(more).max(0);
            if need.checked_mul(pods).is_none_or(|needs| needs > free) {
                pods = free.checked_div(*need).unwrap_or(0);
            }
        }
        u32::try_from(pods).unwrap_or(0)
    }
}

impl Rooms {
    /// As things are. None where devices are shared: what is free of them is no
    /// matter of sums.
    pub(crate) fn new(
        nodes: &Nodes,
        catalog: &Catalog,
        shape: &Shape,
        excluded: &[NodeIdx],
    ) -> Option<Self> {
        if !catalog.shares().is_empty() {
            return None;
        }
        let all = nodes.len();
        let columns = shape.total.iter().map(|(resource, _)| {
            let column = nodes.column(*resource);
            let free = |at| column.map_or(0, |c| c.free(NodeIdx::of(at)));
            (*resource, (0..all).map(free).collect())
        });
        let columns: Vec<(ResourceIdx, Vec<i64>)> = columns.collect();
        let mut groups = Vec::with_capacity(shape.groups.len());
        for shape in &shape.groups {
            let signature = catalog.signature(shape.signature)?;
            let mut allows = FixedBitSet::with_capacity(all);
            for node in signature.nodes().filter(|n| !excluded.contains(n)) {
                allows.set(node.at(), true);
            }
            let mut group = Group {
                count: shape.count,
                needs: columns.iter().map(|(r, _)| shape.need(*r)).collect(),
                allows,
                pods: vec![0; all],
                total: 0,
            };
            for node in group.allows.ones() {
                let pods = group.fits(&columns, node, &[]);
                group.total = group.total.saturating_add(u64::from(pods));
                if let Some(slot) = group.pods.get_mut(node) {
                    *slot = pods;
                }
            }
            groups.push(group);
        }
        Some(Self { columns, groups })
    }

    /// So many pods leave a node; with a negative number they come back. Says
    /// whether any group may use the node.
    pub(crate) fn free(&mut self, node: NodeIdx, demand: &Demand, pods: i64) -> bool {
        let at = node.at();
        if !self.groups.iter().any(|g| g.allows.contains(at)) {
            return false;
        }
        for (resource, free) in &mut self.columns {
            let need = demand.iter().find(|(r, _)| r == resource);
            if let (Some((_, need)), Some(slot)) = (need, free.get_mut(at)) {
                *slot = slot.saturating_add(need.saturating_mul(pods));
            }
        }
        for group in self.groups.iter_mut().filter(|g| g.allows.contains(at)) {
            let now = group.fits(&self.columns, at, &[]);
            if let Some(slot) = group.pods.get_mut(at) {
                let before = std::mem::replace(slot, now);
                group.total = group
                    .total
                    .saturating_add(u64::from(now))
                    .saturating_sub(u64::from(before));
            }
        }
        true
    }

    /// As some leave one node after the other: how many more pods of the first group
    /// it then holds than now. For a gang of one group.
    pub(crate) fn gains<'a>(
        &'a self,
        node: NodeIdx,
        leaving: impl Iterator<Item = (&'a Demand, u32)>,
    ) -> Vec<u32> {
        let Some(group) = self.groups.iter().find(|g| g.count > 0) else {
            return Vec::new();
        };
        let now = group.pods.get(node.at()).copied().unwrap_or(0);
        if !group.allows.contains(node.at()) {
            return leaving.map(|_| 0).collect();
        }
        let mut more: SmallVec<[i64; 6]> = self.columns.iter().map(|_| 0).collect();
        let gain = |(demand, pods): (&Demand, u32)| {
            for ((resource, _), more) in self.columns.iter().zip(&mut more) {
                let need = demand.iter().find(|(r, _)| r == resource);
                let freed = need.map_or(0, |(_, need)| need.saturating_mul(i64::from(pods)));
                *more = more.saturating_add(freed);
            }
            group
                .fits(&self.columns, node.at(), &more)
                .saturating_sub(now)
        };
        leaving.map(gain).collect()
    }

    /// True where each group alone would fit.
    pub(crate) fn enough(&self) -> bool {
        self.groups.iter().all(|g| g.total >= u64::from(g.count))
    }

    /// Of which resources how much must become free at least, anywhere, before
    /// more could fit than now: any one of them may do.
    pub(crate) fn lacking(&self) -> Vec<(ResourceIdx, i128)> {
        let mut lacking = Vec::new();
        for group in self.groups.iter().filter(|g| g.total < u64::from(g.count)) {
            let mut alone = Vec::new();
            for ((resource, free), need) in self.columns.iter().zip(&group.needs) {
                let places = group.allows.ones().map(|node| {
                    let free = free.get(node).copied().unwrap_or(0).max(0);
                    u64::try_from(free.checked_div(*need).unwrap_or(i64::MAX)).unwrap_or(0)
                });
                let places = places.fold(0, u64::saturating_add);
                let missing = u64::from(group.count).saturating_sub(places);
                if *need > 0 && missing > 0 {
                    // One unit each at least.
                    alone.push((*resource, i128::from(missing)));
                }
            }
            if alone.is_empty() {
                let needed = self.columns.iter().zip(&group.needs);
                alone.extend(
                    needed
                        .filter(|(_, need)| **need > 0)
                        .map(|((r, _), _)| (*r, 1)),
                );
            }
            lacking.extend(alone);
        }
        lacking
    }
}
