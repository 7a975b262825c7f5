//! The reasons that keep a task group off each node.

use std::collections::BTreeMap;

use crate::constraints::Constraints;
use crate::ids::{FlavorName, ResourceName};
use crate::node::Taint;
use crate::state::{Catalog, GroupShape, NodeIdx, NodeProperties, Nodes, ResourceIdx};

/// Nodes that meet the constraints and seem to have a resource, but advertise none: they list it
/// with 0, have labels of its name, or the gang selects them. The fault is in their device plugin,
/// not in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnadvertisedDevice {
    /// The resource.
    pub resource: ResourceName,
    /// Number of nodes.
    pub nodes: u32,
}

/// A label that pods require and nodes lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLabel {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The flavor that requires it. None: the group's own node selector requires it.
    pub flavor: Option<FlavorName>,
    /// Number of nodes that lack it.
    pub nodes: u32,
}

/// Counts of nodes that pods cannot use. Each node counts once, for the first reason that applies,
/// in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusions {
    /// All nodes.
    pub nodes: u32,
    /// Not ready.
    pub not_ready: u32,
    /// Unhealthy though ready, by the text that completes "nodes with ...".
    pub unhealthy: Vec<(String, u32)>,
    /// Cordoned.
    pub unschedulable: u32,
    /// Excluded by the gang, because one of its pods failed there recently.
    pub excluded: u32,
    /// Without a label that the pods require: each node counts for the first label that it lacks.
    pub labels: Vec<MissingLabel>,
    /// Not allowed by required node affinity.
    pub affinity: u32,
    /// With a taint that the pods do not tolerate, by taint as `kubectl` writes it.
    pub taints: Vec<(String, u32)>,
    /// Nodes that cannot reach a volume that the pods mount.
    pub volumes: u32,
    /// Nodes that required anti-affinity of other pods forbids.
    pub anti_affinity: u32,
    /// Without a resource that the pod requests, by resource.
    pub missing_resource: Vec<(ResourceName, u32)>,
    /// The nodes without the resource that seem to have it.
    pub unadvertised: Option<UnadvertisedDevice>,
}

/// The first reason that keeps pods off a node, in the order of the variants.
#[derive(Clone, Copy, Debug)]
pub(super) enum NodeExclusion<'n> {
    NotReady,
    Unhealthy(&'n str),
    Unschedulable,
    Excluded,
    Label(&'n str, &'n str),
    Affinity,
    Taint(&'n Taint),
    Volumes,
    AntiAffinity,
    MissingResource(ResourceIdx),
}

/// Returns the reason that keeps a group off a node. None: the node matches.
pub(super) fn find_exclusion<'n>(
    nodes: &'n Nodes,
    catalog: &Catalog,
    group: &GroupShape,
    constraints: &'n Constraints,
    excluded: &[NodeIdx],
    (node, facts): (NodeIdx, &'n NodeProperties),
) -> Option<NodeExclusion<'n>> {
    if !facts.ready {
        Some(NodeExclusion::NotReady)
    } else if let Some(why) = &facts.unhealthy {
        Some(NodeExclusion::Unhealthy(why))
    } else if facts.is_cordoned(constraints) {
        Some(NodeExclusion::Unschedulable)
    } else if excluded.contains(&node) {
        Some(NodeExclusion::Excluded)
    } else if let Some((key, value)) = constraints.missing_label(&facts.labels) {
        Some(NodeExclusion::Label(key, value))
    } else if !constraints.required_affinity_matches(nodes.name(node), &facts.labels) {
        Some(NodeExclusion::Affinity)
    } else if let Some(taint) = constraints.repelling_taint(&facts.taints) {
        Some(NodeExclusion::Taint(taint))
    } else if !constraints.can_reach_volumes(nodes.name(node), &facts.labels) {
        Some(NodeExclusion::Volumes)
    } else if constraints.is_excluded_by_anti_affinity(&facts.labels) {
        Some(NodeExclusion::AntiAffinity)
    } else {
        missing_resource(nodes, catalog, group, node).map(NodeExclusion::MissingResource)
    }
}

/// Counts every node once, for the first reason that keeps the group off it.
pub(super) fn count_exclusions(
    nodes: &Nodes,
    catalog: &Catalog,
    group: &GroupShape,
    excluded: &[NodeIdx],
) -> Exclusions {
    let mut counts = Exclusions {
        nodes: nodes.node_count(),
        ..Exclusions::default()
    };
    let Some(signature) = catalog.signature(group.signature) else {
        return counts;
    };
    let constraints = signature.constraints();
    let mut unhealthy: BTreeMap<String, u32> = BTreeMap::new();
    let mut taints: BTreeMap<String, u32> = BTreeMap::new();
    let mut lacking: BTreeMap<ResourceName, u32> = BTreeMap::new();
    let mut labels: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for (node, facts) in nodes.iter() {
        let Some(off) = find_exclusion(nodes, catalog, group, constraints, excluded, (node, facts))
        else {
            continue;
        };
        let counter = match off {
            NodeExclusion::NotReady => &mut counts.not_ready,
            NodeExclusion::Unhealthy(why) => unhealthy.entry(why.to_owned()).or_default(),
            NodeExclusion::Unschedulable => &mut counts.unschedulable,
            NodeExclusion::Excluded => &mut counts.excluded,
            NodeExclusion::Label(key, value) => labels.entry((key, value)).or_default(),
            NodeExclusion::Affinity => &mut counts.affinity,
            NodeExclusion::Taint(taint) => taints.entry(taint.to_string()).or_default(),
            NodeExclusion::Volumes => &mut counts.volumes,
            NodeExclusion::AntiAffinity => &mut counts.anti_affinity,
            NodeExclusion::MissingResource(resource) => {
                lacking.entry(catalog.name(resource)).or_default()
            }
        };
        *counter = counter.saturating_add(1);
    }
    counts.unhealthy = unhealthy.into_iter().collect();
    counts.labels = labels
        .into_iter()
        .map(|((key, value), nodes)| MissingLabel {
            key: key.to_owned(),
            value: value.to_owned(),
            flavor: None,
            nodes,
        })
        .collect();
    counts.taints = taints.into_iter().collect();
    counts.missing_resource = lacking.into_iter().collect();
    counts.unadvertised = unadvertised_device(nodes, catalog, group, excluded);
    counts
}

/// Returns a requested resource of which the node has none: a device before any other.
fn missing_resource(
    nodes: &Nodes,
    catalog: &Catalog,
    group: &GroupShape,
    node: NodeIdx,
) -> Option<ResourceIdx> {
    group
        .demand
        .iter()
        .map(|(resource, _)| *resource)
        .filter(|resource| nodes.allocatable(*resource, node) == 0)
        .min_by_key(|resource| {
            let name = catalog.name(*resource);
            (!name.is_device(), name)
        })
}

/// Returns the nodes that meet the constraints and seem to have the group's device, but advertise
/// none.
pub(super) fn unadvertised_device(
    nodes: &Nodes,
    catalog: &Catalog,
    group: &GroupShape,
    excluded: &[NodeIdx],
) -> Option<UnadvertisedDevice> {
    let device = group.device?;
    let resource = catalog.name(device);
    let signature = catalog.signature(group.signature)?;
    // In most clusters every kind of node advertises the device.
    let mut kinds = signature
        .kinds()
        .filter_map(|(kind, _)| nodes.kinds().get(kind));
    if kinds.all(|kind| nodes.empty_capacity(kind, device) != 0) {
        return None;
    }
    let count = signature
        .nodes()
        .filter(|node| !excluded.contains(node) && nodes.allocatable(device, *node) == 0)
        .filter(|node| {
            nodes.listed_resources(*node).contains(&device)
                || nodes
                    .properties(*node)
                    .is_some_and(|facts| suggests_device(facts, &resource))
        })
        .count();
    let nodes = u32::try_from(count).unwrap_or(u32::MAX);
    (nodes > 0).then_some(UnadvertisedDevice { resource, nodes })
}

/// True if labels or taints suggest that the node has this device. Keys of device plugins and
/// feature discovery begin with the resource's name (`nvidia.com/gpu.product`). Keys of cloud
/// providers name a gpu or an accelerator.
fn suggests_device(facts: &NodeProperties, device: &ResourceName) -> bool {
    let says = |key: &str| {
        let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
        key.starts_with(device.as_str()) || name.contains("gpu") || name.contains("accelerator")
    };
    let denies = |value: &str| matches!(value, "false" | "none" | "0");
    facts
        .labels
        .iter()
        .any(|(key, value)| says(key) && !denies(value))
        || facts
            .taints
            .iter()
            .any(|taint| taint.key == device.as_str())
}
