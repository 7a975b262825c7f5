//! The capacity that matching nodes would have for one task group if they were empty.

use super::survey::{ResourceNeed, resource_needs};
use crate::state::{Catalog, GroupShape, NodeIdx, NodeProfile, Nodes};

/// Capacity of one resource on the matching nodes.
#[derive(Debug)]
pub(super) struct ResourceCapacity {
    pub(super) need: ResourceNeed,
    /// The sum over all of the nodes.
    pub(super) capacity: i128,
    /// The capacity of the largest node.
    pub(super) largest: i64,
}

/// One task group on its matching nodes, as if they ran no pods. The numbers come from the kinds of
/// nodes, without a visit to each node.
#[derive(Debug)]
pub(super) struct EmptyCapacity {
    /// The resources that one pod requests: devices first, then by name.
    pub(super) resources: Vec<ResourceCapacity>,
    /// Nodes that match.
    pub(super) nodes: u32,
    /// Pods.
    pub(super) pods: u64,
    /// Number of the pods that would fit.
    pub(super) room: u64,
}

impl AsRef<ResourceNeed> for ResourceCapacity {
    fn as_ref(&self) -> &ResourceNeed {
        &self.need
    }
}

impl EmptyCapacity {
    /// Computes the numbers. The caller must have counted the kinds of nodes of the group's
    /// signature.
    pub(super) fn new(
        nodes: &Nodes,
        catalog: &Catalog,
        group: &GroupShape,
        excluded: &[NodeIdx],
    ) -> Self {
        let stock = |asked| ResourceCapacity {
            need: asked,
            capacity: 0,
            largest: 0,
        };
        let mut supply = Self {
            resources: resource_needs(catalog, group)
                .into_iter()
                .map(stock)
                .collect(),
            nodes: 0,
            pods: u64::from(group.count),
            room: 0,
        };
        let Some(signature) = catalog.signature(group.signature) else {
            return supply;
        };
        let needs = nodes.needs(&group.demand);
        for (kind, count) in signature.kinds() {
            let of_kind = |node: &&NodeIdx| nodes.kinds().kind_of(**node) == Some(kind);
            let left_out = excluded.iter().filter(|node| signature.allows(**node));
            let left_out = left_out.filter(of_kind).count();
            let count = count.saturating_sub(u32::try_from(left_out).unwrap_or(u32::MAX));
            let Some(empty) = nodes.kinds().get(kind).filter(|_| count > 0) else {
                continue;
            };
            let pods = needs
                .as_ref()
                .map_or(0, |n| empty.count_fitting(n, group.count));
            supply.add_nodes(nodes, empty, count, pods);
        }
        supply
    }

    /// Adds `count` nodes of a kind, each with room for `pods` pods.
    fn add_nodes(&mut self, nodes: &Nodes, empty: &NodeProfile, count: u32, pods: u32) {
        let has = |resource| nodes.empty_capacity(empty, resource);
        if self.resources.iter().any(|s| has(s.need.resource) <= 0) {
            return;
        }
        for stock in &mut self.resources {
            let each = has(stock.need.resource);
            let all = i128::from(each).saturating_mul(i128::from(count));
            stock.capacity = stock.capacity.saturating_add(all);
            stock.largest = stock.largest.max(each);
        }
        self.nodes = self.nodes.saturating_add(count);
        let pods = u64::from(pods).saturating_mul(u64::from(count));
        self.room = self.room.saturating_add(pods);
    }
}
