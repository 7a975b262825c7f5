//! Reports how each node fits a task group, by name, for a single gang.

use std::collections::BTreeMap;

use super::exclusions::{NodeExclusion, find_exclusion};
use super::survey::resource_needs;
use crate::ids::{FlavorName, GroupName, NodeName, ResourceName};
use crate::placement::{CapacityView, GroupFit};
use crate::state::{Catalog, GroupShape, NodeIdx, Nodes};

/// The nodes as seen by one task group of a pending gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupNodeReport {
    /// The task group.
    pub group: GroupName,
    /// Its pods.
    pub pods: u32,
    /// The flavors that the report assumes: those of the gang's first flavor assignment.
    pub flavors: Vec<FlavorName>,
    /// Nodes that the group cannot use, by the first obstacle in the order of [`NodeObstacle`].
    pub excluded: Vec<(NodeObstacle, Vec<NodeName>)>,
    /// Nodes that match, first those with most room, then by name.
    pub matching: Vec<MatchingNode>,
}

/// An obstacle that keeps pods off a node, in the order of the checks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeObstacle {
    /// The node is not ready.
    NotReady,
    /// The node is unhealthy though ready. The text completes "a node with ...".
    Unhealthy(String),
    /// The node is cordoned.
    Unschedulable,
    /// A pod of the gang failed there recently.
    Excluded,
    /// The node lacks this label: key and value.
    Label(String, String),
    /// Required node affinity does not allow the node.
    Affinity,
    /// The node has this taint, as `kubectl` writes it, and the pods do not tolerate it.
    Taint(String),
    /// A volume that the pods mount cannot be reached from the node.
    Volumes,
    /// Required anti-affinity of other pods keeps these pods out.
    AntiAffinity,
    /// The node has none of this resource.
    MissingResource(ResourceName),
}

/// A node that meets the constraints of a group and has each resource that a pod requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchingNode {
    /// The node.
    pub node: NodeName,
    /// Number of pods of the group that fit now, at most all of them.
    pub room: u32,
    /// Free amount of each resource that a pod requests, in base units, devices first; negative if
    /// the node shrank below its usage.
    pub free: Vec<(ResourceName, i64)>,
}

impl NodeObstacle {
    fn from_exclusion(off: NodeExclusion<'_>, catalog: &Catalog) -> Self {
        match off {
            NodeExclusion::NotReady => Self::NotReady,
            NodeExclusion::Unhealthy(why) => Self::Unhealthy(why.to_owned()),
            NodeExclusion::Unschedulable => Self::Unschedulable,
            NodeExclusion::Excluded => Self::Excluded,
            NodeExclusion::Label(key, value) => Self::Label(key.to_owned(), value.to_owned()),
            NodeExclusion::Affinity => Self::Affinity,
            NodeExclusion::Taint(taint) => Self::Taint(taint.to_string()),
            NodeExclusion::Volumes => Self::Volumes,
            NodeExclusion::AntiAffinity => Self::AntiAffinity,
            NodeExclusion::MissingResource(resource) => {
                Self::MissingResource(catalog.name(resource))
            }
        }
    }
}

/// Reports how each node fits a group of this name and shape. Visits every node once.
pub(crate) fn report_group_nodes(
    nodes: &Nodes,
    catalog: &Catalog,
    (name, flavors): (GroupName, Vec<FlavorName>),
    group: &GroupShape,
    excluded: &[NodeIdx],
) -> Option<GroupNodeReport> {
    let constraints = catalog.signature(group.signature)?.constraints();
    let fit = GroupFit::new(nodes, group, CapacityView::Free);
    let asked = resource_needs(catalog, group);
    let mut kept: BTreeMap<NodeObstacle, Vec<NodeName>> = BTreeMap::new();
    let mut matching = Vec::new();
    for (node, facts) in nodes.iter() {
        let called = nodes.name(node).clone();
        match find_exclusion(nodes, catalog, group, constraints, excluded, (node, facts)) {
            Some(off) => kept
                .entry(NodeObstacle::from_exclusion(off, catalog))
                .or_default()
                .push(called),
            None => matching.push(MatchingNode {
                node: called,
                room: fit.count_fitting(node, group.count),
                free: asked
                    .iter()
                    .map(|asked| (asked.name.clone(), nodes.free(asked.resource, node)))
                    .collect(),
            }),
        }
    }
    kept.values_mut().for_each(|names| names.sort_unstable());
    let first = |of: &MatchingNode| of.free.first().map_or(0, |(_, free)| *free);
    matching.sort_unstable_by(|a, b| (b.room, first(b), &a.node).cmp(&(a.room, first(a), &b.node)));
    Some(GroupNodeReport {
        group: name,
        pods: group.count,
        flavors,
        excluded: kept.into_iter().collect(),
        matching,
    })
}
