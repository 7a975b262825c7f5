//! The numbers of one task group over the nodes that match it.

use crate::ids::ResourceName;
use crate::placement::{Fit, Room};
use crate::state::{Catalog, Column, GroupShape, NodeIdx, Nodes, ResourceIdx};

/// What one pod needs of one resource.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) resource: ResourceIdx,
    pub(super) name: ResourceName,
    pub(super) need: i64,
}

/// What is free of one resource on the matching nodes.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) asked: Asked,
    /// What is free.
    pub(super) free: i128,
    /// Nodes that have some free.
    pub(super) nodes_free: u32,
    /// The most that is free on one.
    pub(super) most: i64,
    /// Pods there would be room for if this were all they need.
    pub(super) places: u64,
    /// Held by placed gangs.
    pub(super) held_by_gangs: i128,
    /// Used by other pods.
    pub(super) held_by_others: i128,
}

/// One task group on the nodes that match it.
#[derive(Debug)]
pub(super) struct Survey {
    /// What one pod needs: devices first, then by name.
    pub(super) lines: Vec<Line>,
    /// Nodes that match.
    pub(super) nodes: Vec<NodeIdx>,
    /// Pods.
    pub(super) pods: u64,
    /// How many of them there is room for.
    pub(super) room: u64,
}

impl AsRef<Asked> for Line {
    fn as_ref(&self) -> &Asked {
        &self.asked
    }
}

impl Asked {
    /// What all pods need.
    pub(super) fn needs(&self, pods: u64) -> i128 {
        i128::from(self.need).saturating_mul(i128::from(pods))
    }
}

impl Line {
    fn new(asked: Asked) -> Self {
        Self {
            asked,
            free: 0,
            nodes_free: 0,
            most: 0,
            places: 0,
            held_by_gangs: 0,
            held_by_others: 0,
        }
    }

    /// Pods there would be room for on one node if this were all they need.
    fn places_on(&self, nodes: &Nodes, node: NodeIdx) -> i64 {
        let free = nodes.free(self.asked.resource, node).max(0);
        free.checked_div(self.asked.need).unwrap_or(0)
    }

    fn add(&mut self, nodes: &Nodes, column: &Column, node: NodeIdx) {
        let free = column.free(node).max(0);
        self.free = self.free.saturating_add(i128::from(free));
        self.nodes_free = self.nodes_free.saturating_add(u32::from(free > 0));
        self.most = self.most.max(free);
        let places = free.checked_div(self.asked.need).unwrap_or(0);
        self.places = self
            .places
            .saturating_add(u64::try_from(places).unwrap_or(0));
        let (gangs, others) = nodes.held(self.asked.resource, node);
        self.held_by_gangs = self.held_by_gangs.saturating_add(gangs);
        self.held_by_others = self.held_by_others.saturating_add(others);
    }
}

impl Survey {
    pub(super) fn new(
        nodes: &Nodes,
        catalog: &Catalog,
        group: &GroupShape,
        excluded: &[NodeIdx],
    ) -> Self {
        let mut survey = Self {
            lines: asked(catalog, group).into_iter().map(Line::new).collect(),
            nodes: matching(nodes, catalog, group, excluded),
            pods: u64::from(group.count),
            room: 0,
        };
        for line in &mut survey.lines {
            let Some(column) = nodes.column(line.asked.resource) else {
                continue;
            };
            for node in &survey.nodes {
                line.add(nodes, column, *node);
            }
        }
        survey.room = room(nodes, group, &survey.nodes);
        survey
    }

    /// Where there is enough of each resource, but not together: the nodes that
    /// have the resource that packing looks at first free for a pod, the resource
    /// that most of them have too little of beside it, and how many those are.
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

/// What one pod of a group needs: devices first, then by name.
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

/// Nodes that meet the constraints and have some of all that a pod needs.
fn matching(
    nodes: &Nodes,
    catalog: &Catalog,
    group: &GroupShape,
    excluded: &[NodeIdx],
) -> Vec<NodeIdx> {
    let Some(signature) = catalog.signature(group.signature) else {
        return Vec::new();
    };
    signature
        .nodes()
        .filter(|node| !excluded.contains(node))
        .filter(|node| {
            let has = |(r, _): &(ResourceIdx, i64)| nodes.allocatable(*r, *node) > 0;
            group.demand.iter().all(has)
        })
        .collect()
}

/// How many of the pods there is room for.
fn room(nodes: &Nodes, group: &GroupShape, matching: &[NodeIdx]) -> u64 {
    let fit = Fit::new(nodes, group, Room::Free);
    matching.iter().fold(0, |sum, node| {
        u64::from(fit.pods(*node, group.count)).saturating_add(sum)
    })
}
