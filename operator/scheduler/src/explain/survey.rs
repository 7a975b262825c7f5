//! The numbers of one task group over the nodes that match it.

use super::context::ExplanationContext;
use crate::ids::ResourceName;
use crate::placement::{CapacityView, GroupFit};
use crate::state::{Catalog, GroupShape, NodeIdx, Nodes, ResourceColumn, ResourceIdx};

/// Units of one resource that a pod requests.
#[derive(Debug)]
pub(super) struct ResourceNeed {
    pub(super) resource: ResourceIdx,
    pub(super) name: ResourceName,
    pub(super) per_pod: i64,
}

/// Free capacity of one resource on the matching nodes.
#[derive(Debug)]
pub(super) struct FreeResource {
    pub(super) need: ResourceNeed,
    /// Units that are free in total.
    pub(super) free: i128,
}

/// The distribution of that free capacity over the nodes.
#[derive(Debug, Default)]
pub(super) struct FreeDistribution {
    /// Nodes that have some free.
    pub(super) nodes_free: u32,
    /// The most that is free on one node.
    pub(super) largest: i64,
    /// Number of pods that would fit if they needed only this resource.
    pub(super) fitting_pods: u64,
}

/// One task group on its matching nodes. The survey counts the free totals at once. It computes all
/// other numbers on demand, because each costs another pass over the nodes.
#[derive(Debug)]
pub(super) struct GroupSurvey {
    /// The resources that one pod requests: devices first, then by name.
    pub(super) resources: Vec<FreeResource>,
    /// Nodes that match.
    pub(super) nodes: Vec<NodeIdx>,
    /// Pods.
    pub(super) pods: u64,
}

impl AsRef<ResourceNeed> for FreeResource {
    fn as_ref(&self) -> &ResourceNeed {
        &self.need
    }
}

impl ResourceNeed {
    /// Returns the units that all pods need.
    pub(super) fn total_need(&self, pods: u64) -> i128 {
        i128::from(self.per_pod).saturating_mul(i128::from(pods))
    }
}

impl FreeResource {
    /// Returns how many pods would fit on one node if they needed only this resource.
    fn pods_on(&self, nodes: &Nodes, node: NodeIdx) -> i64 {
        let free = nodes.free(self.need.resource, node).max(0);
        free.checked_div(self.need.per_pod).unwrap_or(0)
    }
}

impl GroupSurvey {
    pub(super) fn new(
        nodes: &Nodes,
        catalog: &Catalog,
        group: &GroupShape,
        excluded: &[NodeIdx],
    ) -> Self {
        let matching = matching_nodes(nodes, catalog, group, excluded);
        let line = |asked: ResourceNeed| {
            let column = nodes.column(asked.resource);
            let free = |column| free_amounts(column, &matching).fold(0, add_free);
            let free = column.map_or(0, free);
            FreeResource { need: asked, free }
        };
        Self {
            resources: resource_needs(catalog, group)
                .into_iter()
                .map(line)
                .collect(),
            nodes: matching,
            pods: u64::from(group.count),
        }
    }

    /// Returns the distribution of the free capacity of a resource.
    pub(super) fn spread(&self, nodes: &Nodes, line: &FreeResource) -> FreeDistribution {
        let mut spread = FreeDistribution::default();
        let Some(column) = nodes.column(line.need.resource) else {
            return spread;
        };
        for free in free_amounts(column, &self.nodes) {
            spread.nodes_free = spread.nodes_free.saturating_add(u32::from(free > 0));
            spread.largest = spread.largest.max(free);
            let places = free.checked_div(line.need.per_pod).unwrap_or(0);
            let places = u64::try_from(places).unwrap_or(0);
            spread.fitting_pods = spread.fitting_pods.saturating_add(places);
        }
        spread
    }

    /// Returns the units of a resource that placed gangs hold, and that other pods use.
    pub(super) fn usage(
        &self,
        question: &ExplanationContext<'_>,
        line: &FreeResource,
    ) -> (i128, i128) {
        let held = self.nodes.iter();
        let held = held.map(|node| question.usage(line.need.resource, *node));
        held.fold((0, 0), |(gangs, others), (g, o)| {
            (gangs.saturating_add(g), others.saturating_add(o))
        })
    }

    /// Returns how many of the pods fit.
    pub(super) fn fitting_pods(&self, nodes: &Nodes, group: &GroupShape) -> u64 {
        let fit = GroupFit::new(nodes, group, CapacityView::Free);
        self.nodes.iter().fold(0, |sum, node| {
            u64::from(fit.count_fitting(*node, group.count)).saturating_add(sum)
        })
    }

    /// Returns the resource that keeps pods off nodes although there is enough of each resource in
    /// total. `nodes` counts the nodes that have the first resource free for a pod. `missing` is
    /// the resource that most of these nodes lack, and `missing_nodes` counts the nodes that lack
    /// it.
    pub(super) fn separate_resources(&self, nodes: &Nodes) -> Option<SeparateResources<'_>> {
        let first = self.resources.first()?;
        let with: Vec<(NodeIdx, i64)> = self
            .nodes
            .iter()
            .map(|node| (*node, first.pods_on(nodes, *node)))
            .filter(|(_, places)| *places > 0)
            .collect();
        let mut apart = SeparateResources {
            first,
            nodes: with.len(),
            missing: first,
            missing_nodes: 0,
        };
        for line in self.resources.iter().skip(1) {
            let lacks = |(node, places): &&(NodeIdx, i64)| line.pods_on(nodes, *node) < *places;
            let count = with.iter().filter(lacks).count();
            if count > apart.missing_nodes {
                apart.missing = line;
                apart.missing_nodes = count;
            }
        }
        (apart.missing_nodes > 0).then_some(apart)
    }
}

/// Resources that are free, but not on the same nodes.
pub(super) struct SeparateResources<'s> {
    pub(super) first: &'s FreeResource,
    pub(super) nodes: usize,
    pub(super) missing: &'s FreeResource,
    pub(super) missing_nodes: usize,
}

/// Returns the resources that one pod of a group requests: the packed device first, then other
/// devices, then by name.
pub(super) fn resource_needs(catalog: &Catalog, group: &GroupShape) -> Vec<ResourceNeed> {
    let demand = group.demand.iter();
    let all = demand.map(|(resource, need)| ResourceNeed {
        resource: *resource,
        name: catalog.name(*resource),
        per_pod: *need,
    });
    let mut all: Vec<ResourceNeed> = all.collect();
    all.sort_by_cached_key(|asked| {
        let packed_first = Some(asked.resource) == group.device;
        (!packed_first, !asked.name.is_device(), asked.name.clone())
    });
    all
}

/// Returns the free capacity of each of these nodes.
fn free_amounts<'n>(
    column: &'n ResourceColumn,
    nodes: &'n [NodeIdx],
) -> impl Iterator<Item = i64> + 'n {
    nodes.iter().map(|node| column.free(*node).max(0))
}

fn add_free(sum: i128, free: i64) -> i128 {
    sum.saturating_add(i128::from(free))
}

/// Returns the nodes that meet the constraints and have each resource that a pod requests. All
/// nodes of a kind have the same resources.
fn matching_nodes(
    nodes: &Nodes,
    catalog: &Catalog,
    group: &GroupShape,
    excluded: &[NodeIdx],
) -> Vec<NodeIdx> {
    let Some(signature) = catalog.signature(group.signature) else {
        return Vec::new();
    };
    let has_all = |node: NodeIdx| {
        let has = |(r, _): &(ResourceIdx, i64)| nodes.allocatable(*r, node) > 0;
        group.demand.iter().all(has)
    };
    // Neighbouring nodes are usually of one kind.
    let mut last: Option<(usize, bool)> = None;
    let mut matches = |node: NodeIdx| match (nodes.kinds().kind_of(node), last) {
        (Some(kind), Some((before, has))) if kind == before => has,
        (Some(kind), _) => {
            let has = has_all(node);
            last = Some((kind, has));
            has
        }
        (None, _) => has_all(node),
    };
    signature
        .nodes()
        .filter(|node| !excluded.contains(node) && matches(*node))
        .collect()
}
