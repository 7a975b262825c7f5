//! What each node is to a task group: by name, for who looks at one gang alone.

use std::collections::BTreeMap;

use super::exclusions::{Off, off};
use super::survey::asked;
use crate::ids::{FlavorName, GroupName, NodeName, ResourceName};
use crate::placement::{Fit, Room};
use crate::state::{Catalog, GroupShape, NodeIdx, Nodes};

/// What the nodes are to one task group of a gang that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupNodes {
    /// The task group.
    pub group: GroupName,
    /// Its pods.
    pub pods: u32,
    /// The flavors that it is looked at with: those that it would be given first.
    pub flavors: Vec<FlavorName>,
    /// Nodes that it is kept off, by the first that does so, in the order in which that is
    /// looked at.
    pub off: Vec<(Obstacle, Vec<NodeName>)>,
    /// Nodes that match, those with most room first, then by name.
    pub matching: Vec<MatchingNode>,
}

/// What keeps pods off a node. In the order in which that is looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// It is not ready.
    NotReady,
    /// It is unhealthy though ready: what it is a node *with*.
    Unhealthy(String),
    /// It is cordoned.
    Unschedulable,
    /// A pod of the gang failed there not long ago.
    Excluded,
    /// It has not this label: key and value.
    Label(String, String),
    /// Required node affinity does not allow it.
    Affinity,
    /// It has this taint, as `kubectl` writes it, which is not tolerated.
    Taint(String),
    /// It is out of reach of a volume that the pods mount.
    Volumes,
    /// Required anti-affinity of other pods keeps them out.
    KeptOut,
    /// It has none of this resource.
    Lacking(ResourceName),
}

/// A node that meets the constraints of a group and has some of all that a pod requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchingNode {
    /// The node.
    pub node: NodeName,
    /// How many pods of the group there is room for now, at most all of them.
    pub room: u32,
    /// What is free of each resource that a pod requests, in base units, devices first;
    /// negative where it shrank below what is used.
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

/// What each node is to a group of this name and shape. One look at every node.
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
