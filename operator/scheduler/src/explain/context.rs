//! The state in which a gang that waits for nodes is explained.

use std::collections::BTreeMap;

use crate::gang::Gang;
use crate::ids::GroupName;
use crate::state::{Catalog, GangShape, NodeIdx, Nodes, ResourceIdx};

/// A gang that the nodes have no place for, and the state in which to explain it.
pub(crate) struct ExplanationContext<'a> {
    pub(crate) nodes: &'a Nodes,
    pub(crate) catalog: &'a Catalog,
    pub(crate) gang: &'a Gang,
    pub(crate) shape: &'a GangShape,
    pub(crate) excluded: &'a [NodeIdx],
    /// True if the search for a place reached no bound.
    pub(crate) certain: bool,
    /// Usage by the placements of gangs whose victims have not left yet.
    pub(crate) nominated_usage: NominatedUsage,
}

/// Amounts by node and resource.
pub(crate) type NominatedUsage = BTreeMap<(NodeIdx, ResourceIdx), i128>;

impl ExplanationContext<'_> {
    /// Returns the amounts of a resource that placed gangs hold on a node, and that other pods use.
    /// A nominated placement counts once, although its victims still hold the same room.
    pub(super) fn usage(&self, resource: ResourceIdx, node: NodeIdx) -> (i128, i128) {
        let (gangs, others) = self.nodes.usage(resource, node);
        let promised = self
            .nominated_usage
            .get(&(node, resource))
            .copied()
            .unwrap_or(0);
        let all = i128::from(self.nodes.allocatable(resource, node));
        let twice = gangs.saturating_add(others).saturating_sub(all);
        (gangs.saturating_sub(twice.clamp(0, promised)), others)
    }

    /// Returns the group's name, if the gang has several groups.
    pub(super) fn group_name(&self, group: usize) -> Option<GroupName> {
        let several = self.gang.groups.len() > 1;
        self.gang
            .groups
            .get(group)
            .filter(|_| several)
            .map(|g| g.name.clone())
    }
}
