//! The reasons that keep a task group off each node.

use std::collections::BTreeMap;

use crate::constraints::Constraints;
use crate::ids::{FlavorName, ResourceName};
use crate::node::Taint;
use crate::state::{Catalog, Facts, GroupShape, NodeIdx, Nodes, ResourceIdx, cordoned};

/// Nodes that meet the constraints and look as if they had a resource, but advertise none: they
/// list it with 0, have labels of its name, or are selected by the gang. The fault is in their
/// device plugin, not in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// The resource.
    pub resource: ResourceName,
    /// How many nodes.
    pub nodes: u32,
}

/// A label that pods ask for and nodes lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLabel {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The flavor that asks for it. None: the group's own node selector does.
    pub flavor: Option<FlavorName>,
    /// How many nodes lack it.
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
    /// Excluded by the gang: a pod of it failed there not long ago.
    pub excluded: u32,
    /// Without a label that the pods ask for: each node counts for the first label that it lacks.
    pub labels: Vec<MissingLabel>,
    /// Not allowed by required node affinity.
    pub affinity: u32,
    /// With a taint that is not tolerated, by taint as `kubectl` writes it.
    pub taints: Vec<(String, u32)>,
    /// Nodes that cannot reach a volume that the pods mount.
    pub volumes: u32,
    /// Where required anti-affinity of other pods keeps them out.
    pub kept_out: u32,
    /// Without a resource that the pod requests, by resource.
    pub lacking: Vec<(ResourceName, u32)>,
    /// Among the nodes that lack a resource: those that look as if they had it.
    pub silent: Option<Silent>,
}

/// The reason that keeps pods off a node: the first that applies, in the order of the variants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Off<'n> {
    NotReady,
    Unhealthy(&'n str),
    Unschedulable,
    Excluded,
    Label(&'n str, &'n str),
    Affinity,
    Taint(&'n Taint),
    Volumes,
    KeptOut,
    Lacking(ResourceIdx),
}

/// The reason that keeps a group off a node. None: the node matches.
pub(super) fn off<'n>(
    nodes: &'n Nodes,
    catalog: &Catalog,
    group: &GroupShape,
    constraints: &'n Constraints,
    excluded: &[NodeIdx],
    (node, facts): (NodeIdx, &'n Facts),
) -> Option<Off<'n>> {
    if !facts.ready {
        Some(Off::NotReady)
    } else if let Some(why) = &facts.unhealthy {
        Some(Off::Unhealthy(why))
    } else if cordoned(constraints, facts) {
        Some(Off::Unschedulable)
    } else if excluded.contains(&node) {
        Some(Off::Excluded)
    } else if let Some((key, value)) = constraints.lacks_label(&facts.labels) {
        Some(Off::Label(key, value))
    } else if !constraints.requires(nodes.name(node), &facts.labels) {
        Some(Off::Affinity)
    } else if let Some(taint) = constraints.repelled_by(&facts.taints) {
        Some(Off::Taint(taint))
    } else if !constraints.reaches_volumes(nodes.name(node), &facts.labels) {
        Some(Off::Volumes)
    } else if constraints.is_kept_out(&facts.labels) {
        Some(Off::KeptOut)
    } else {
        lacks(nodes, catalog, group, node).map(Off::Lacking)
    }
}

/// Counts every node once, for the first reason that keeps the group off it.
pub(super) fn count(
    nodes: &Nodes,
    catalog: &Catalog,
    group: &GroupShape,
    excluded: &[NodeIdx],
) -> Exclusions {
    let mut counts = Exclusions {
        nodes: nodes.present(),
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
        let Some(off) = off(nodes, catalog, group, constraints, excluded, (node, facts)) else {
            continue;
        };
        let counter = match off {
            Off::NotReady => &mut counts.not_ready,
            Off::Unhealthy(why) => unhealthy.entry(why.to_owned()).or_default(),
            Off::Unschedulable => &mut counts.unschedulable,
            Off::Excluded => &mut counts.excluded,
            Off::Label(key, value) => labels.entry((key, value)).or_default(),
            Off::Affinity => &mut counts.affinity,
            Off::Taint(taint) => taints.entry(taint.to_string()).or_default(),
            Off::Volumes => &mut counts.volumes,
            Off::KeptOut => &mut counts.kept_out,
            Off::Lacking(resource) => lacking.entry(catalog.name(resource)).or_default(),
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
    counts.lacking = lacking.into_iter().collect();
    counts.silent = silent(nodes, catalog, group, excluded);
    counts
}

/// A resource of which the node has none: a device before any other.
fn lacks(
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

/// Nodes that meet the constraints and look as if they had the group's device,
/// but advertise none.
pub(super) fn silent(
    nodes: &Nodes,
    catalog: &Catalog,
    group: &GroupShape,
    excluded: &[NodeIdx],
) -> Option<Silent> {
    let device = group.device?;
    let resource = catalog.name(device);
    let signature = catalog.signature(group.signature)?;
    // Usually every kind of node has some.
    let mut kinds = signature
        .kinds()
        .filter_map(|(kind, _)| nodes.kinds().get(kind));
    if kinds.all(|kind| nodes.has_empty(kind, device) != 0) {
        return None;
    }
    let count = signature
        .nodes()
        .filter(|node| !excluded.contains(node) && nodes.allocatable(device, *node) == 0)
        .filter(|node| {
            nodes.offers(*node).contains(&device)
                || nodes
                    .facts(*node)
                    .is_some_and(|facts| looks_like(facts, &resource))
        })
        .count();
    let nodes = u32::try_from(count).unwrap_or(u32::MAX);
    (nodes > 0).then_some(Silent { resource, nodes })
}

/// True if labels or taints suggest that the node has such a device: keys of device plugins and
/// feature discovery begin with the resource's name (`nvidia.com/gpu.product`), keys of cloud
/// providers name a gpu or an accelerator.
fn looks_like(facts: &Facts, device: &ResourceName) -> bool {
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
