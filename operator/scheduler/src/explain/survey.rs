//! The numbers of one task group over the nodes that match it.

use super::Question;
use crate::ids::ResourceName;
use crate::placement::{Fit, Room};
use crate::state::{Catalog, Column, GroupShape, NodeIdx, Nodes, ResourceIdx};

/// Units of one resource that a pod requests.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) resource: ResourceIdx,
    pub(super) name: ResourceName,
    pub(super) need: i64,
}

/// Free capacity of one resource on the matching nodes.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) asked: Asked,
    /// Units that are free in total.
    pub(super) free: i128,
}

/// The distribution of that free capacity over the nodes.
#[derive(Debug, Default)]
pub(super) struct Spread {
    /// Nodes that have some free.
    pub(super) nodes_free: u32,
    /// The most that is free on one node.
    pub(super) most: i64,
    /// How many pods would fit if this were all they need.
    pub(super) places: u64,
}

/// One task group on its matching nodes. The free totals are counted at once; everything else costs
/// another look at every node and is computed on demand.
#[derive(Debug)]
pub(super) struct Survey {
    /// The resources that one pod requests: devices first, then by name.
    pub(super) lines: Vec<Line>,
    /// Nodes that match.
    pub(super) nodes: Vec<NodeIdx>,
    /// Pods.
    pub(super) pods: u64,
}

impl AsRef<Asked> for Line {
    fn as_ref(&self) -> &Asked {
        &self.asked
    }
}

impl Asked {
    /// Units that all pods need.
    pub(super) fn needs(&self, pods: u64) -> i128 {
        i128::from(self.need).saturating_mul(i128::from(pods))
    }
}

impl Line {
    /// How many pods would fit on one node if this were all they need.
    fn places_on(&self, nodes: &Nodes, node: NodeIdx) -> i64 {
        let free = nodes.free(self.asked.resource, node).max(0);
        free.checked_div(self.asked.need).unwrap_or(0)
    }
}

impl Survey {
    pub(super) fn new(
        nodes: &Nodes,
        catalog: &Catalog,
        group: &GroupShape,
        excluded: &[NodeIdx],
    ) -> Self {
        let matching = matching(nodes, catalog, group, excluded);
        let line = |asked: Asked| {
            let column = nodes.column(asked.resource);
            let free = |column| free(column, &matching).fold(0, sum_of);
            let free = column.map_or(0, free);
            Line { asked, free }
        };
        Self {
            lines: asked(catalog, group).into_iter().map(line).collect(),
            nodes: matching,
            pods: u64::from(group.count),
        }
    }

    /// The distribution of the free capacity of a resource.
    pub(super) fn spread(&self, nodes: &Nodes, line: &Line) -> Spread {
        let mut spread = Spread::default();
        let Some(column) = nodes.column(line.asked.resource) else {
            return spread;
        };
        for free in free(column, &self.nodes) {
            spread.nodes_free = spread.nodes_free.saturating_add(u32::from(free > 0));
            spread.most = spread.most.max(free);
            let places = free.checked_div(line.asked.need).unwrap_or(0);
            let places = u64::try_from(places).unwrap_or(0);
            spread.places = spread.places.saturating_add(places);
        }
        spread
    }

    /// Units of a resource that placed gangs hold, and that other pods use.
    pub(super) fn held(&self, question: &Question<'_>, line: &Line) -> (i128, i128) {
        let held = self.nodes.iter();
        let held = held.map(|node| question.held(line.asked.resource, *node));
        held.fold((0, 0), |(gangs, others), (g, o)| {
            (gangs.saturating_add(g), others.saturating_add(o))
        })
    }

    /// How many of the pods fit.
    pub(super) fn room(&self, nodes: &Nodes, group: &GroupShape) -> u64 {
        let fit = Fit::new(nodes, group, Room::Free);
        self.nodes.iter().fold(0, |sum, node| {
            u64::from(fit.pods(*node, group.count)).saturating_add(sum)
        })
    }

    /// The resource that keeps pods off nodes though there is enough of each resource in total.
    /// `nodes` counts the nodes that have the first resource free for a pod; `lacking` is the
    /// resource that most of these have too little of, and `lacking_nodes` counts those.
    pub(super) fn apart(&self, nodes: &Nodes) -> Option<Apart<'_>> {
        let first = self.lines.first()?;
        let with: Vec<(NodeIdx, i64)> = self
            .nodes
            .iter()
            .map(|node| (*node, first.places_on(nodes, *node)))
            .filter(|(_, places)| *places > 0)
            .collect();
        let mut apart = Apart {
            first,
            nodes: with.len(),
            lacking: first,
            lacking_nodes: 0,
        };
        for line in self.lines.iter().skip(1) {
            let lacks = |(node, places): &&(NodeIdx, i64)| line.places_on(nodes, *node) < *places;
            let count = with.iter().filter(lacks).count();
            if count > apart.lacking_nodes {
                apart.lacking = line;
                apart.lacking_nodes = count;
            }
        }
        (apart.lacking_nodes > 0).then_some(apart)
    }
}

/// Resources that are free, but not on the same nodes.
pub(super) struct Apart<'s> {
    pub(super) first: &'s Line,
    pub(super) nodes: usize,
    pub(super) lacking: &'s Line,
    pub(super) lacking_nodes: usize,
}

/// The resources that one pod of a group requests: the packed device first, then other devices,
/// then by name.
pub(super) fn asked(catalog: &Catalog, group: &GroupShape) -> Vec<Asked> {
    let demand = group.demand.iter();
    let all = demand.map(|(resource, need)| Asked {
        resource: *resource,
        name: catalog.name(*resource),
        need: *need,
    });
    let mut all: Vec<Asked> = all.collect();
    all.sort_by_cached_key(|asked| {
        let packed_first = Some(asked.resource) == group.device;
        (!packed_first, !asked.name.is_device(), asked.name.clone())
    });
    all
}

/// Free capacity of each of these nodes.
fn free<'n>(column: &'n Column, nodes: &'n [NodeIdx]) -> impl Iterator<Item = i64> + 'n {
    nodes.iter().map(|node| column.free(*node).max(0))
}

fn sum_of(sum: i128, free: i64) -> i128 {
    sum.saturating_add(i128::from(free))
}

/// Nodes that meet the constraints and have each resource that a pod requests, which is the same
/// for all nodes of a kind.
fn matching(
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
    let mut matches = |node: NodeIdx| match (nodes.kinds().of(node), last) {
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
