//! How each node relates to a task group, by name: for a report on a single gang.

use std::collections::BTreeMap;

use super::exclusions::{Off, off};
use super::survey::asked;
use crate::ids::{FlavorName, GroupName, NodeName, ResourceName};
use crate::placement::{Fit, Room};
use crate::state::{Catalog, GroupShape, NodeIdx, Nodes};

/// The nodes as seen by one task group of a pending gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupNodes {
    /// The task group.
    pub group: GroupName,
    /// Its pods.
    pub pods: u32,
    /// The flavors that the report assumes: those that the group would get first.
    pub flavors: Vec<FlavorName>,
    /// Nodes that the group cannot use, by the first obstacle in the order of [`Obstacle`].
    pub off: Vec<(Obstacle, Vec<NodeName>)>,
    /// Nodes that match, those with most room first, then by name.
    pub matching: Vec<MatchingNode>,
}

/// An obstacle that keeps pods off a node, in the order in which they are checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
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
    KeptOut,
    /// The node has none of this resource.
    Lacking(ResourceName),
}

/// A node that meets the constraints of a group and has each resource that a pod requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchingNode {
    /// The node.
    pub node: NodeName,
    /// How many pods of the group fit now, at most all of them.
    pub room: u32,
    /// Free amount of each resource that a pod requests, in base units, devices first; negative if
    /// the node shrank below its usage.
    pub free: Vec<(ResourceName, i64)>,
}

impl Obstacle {
    fn of(off: Off<'_>, catalog: &Catalog) -> Self {
        match off {
            Off::NotReady => Self::NotReady,
            Off::Unhealthy(why) => Self::Unhealthy(why.to_owned()),
            Off::Unschedulable => Self::Unschedulable,
            Off::Excluded => Self::Excluded,
            Off::Label(key, value) => Self::Label(key.to_owned(), value.to_owned()),
            Off::Affinity => Self::Affinity,
            Off::Taint(taint) => Self::Taint(taint.to_string()),
            Off::Volumes => Self::Volumes,
            Off::KeptOut => Self::KeptOut,
            Off::Lacking(resource) => Self::Lacking(catalog.name(resource)),
        }
    }
}

/// How each node relates to a group of this name and shape. Looks at every node once.
pub(crate) fn by_node(
    nodes: &Nodes,
    catalog: &Catalog,
    (name, flavors): (GroupName, Vec<FlavorName>),
    group: &GroupShape,
    excluded: &[NodeIdx],
) -> Option<GroupNodes> {
    let constraints = catalog.signature(group.signature)?.constraints();
    let fit = Fit::new(nodes, group, Room::Free);
    let asked = asked(catalog, group);
    let mut kept: BTreeMap<Obstacle, Vec<NodeName>> = BTreeMap::new();
    let mut matching = Vec::new();
    for (node, facts) in nodes.iter() {
        let called = nodes.name(node).clone();
        match off(nodes, catalog, group, constraints, excluded, (node, facts)) {
            Some(off) => kept
                .entry(Obstacle::of(off, catalog))
                .or_default()
                .push(called),
            None => matching.push(MatchingNode {
                node: called,
                room: fit.pods(node, group.count),
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
    Some(GroupNodes {
        group: name,
        pods: group.count,
        flavors,
        off: kept.into_iter().collect(),
        matching,
    })
}
