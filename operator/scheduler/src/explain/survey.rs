//! The numbers of one task group over the nodes that match it.

use crate::ids::ResourceName;
use crate::placement::{Fit, Room};
use crate::state::{Catalog, Column, GroupShape, NodeIdx, Nodes, ResourceIdx};

/// What the matching nodes have of one resource.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) resource: ResourceIdx,
    pub(super) name: ResourceName,
    /// What one pod needs.
    pub(super) need: i64,
    /// What the nodes have when they are empty.
    pub(super) capacity: i128,
    /// What the largest of them has.
    pub(super) largest: i64,
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
    /// How many of them there would be room for if the nodes were empty.
    pub(super) room_empty: u64,
}

impl Line {
    /// What all pods need.
    pub(super) fn needs(&self, pods: u64) -> i128 {
        i128::from(self.need).saturating_mul(i128::from(pods))
    }

    /// Pods there would be room for on one node if this were all they need.
    fn places_on(&self, nodes: &Nodes, node: NodeIdx) -> i64 {
        let free = nodes.free(self.resource, node).max(0);
        free.checked_div(self.need).unwrap_or(0)
    }

    fn add(&mut self, nodes: &Nodes, column: &Column, node: NodeIdx) {
        let has = column.allocatable(node);
        let free = column.free(node).max(0);
        self.capacity = self.capacity.saturating_add(i128::from(has));
        self.largest = self.largest.max(has);
        self.free = self.free.saturating_add(i128::from(free));
        self.nodes_free = self.nodes_free.saturating_add(u32::from(free > 0));
        self.most = self.most.max(free);
        let places = free.checked_div(self.need).unwrap_or(0);
        self.places = self
            .places
            .saturating_add(u64::try_from(places).unwrap_or(0));
        let (gangs, others) = nodes.held(self.resource, node);
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
            lines: lines(catalog, group),
            nodes: matching(nodes, catalog, group, excluded),
            pods: u64::from(group.count),
            room: 0,
            room_empty: 0,
        };
        for line in &mut survey.lines {
            let Some(column) = nodes.column(line.resource) else {
                continue;
            };
            for node in &survey.nodes {
                line.add(nodes, column, *node);
            }
        }
        survey.room = room(nodes, group, &survey.nodes, Room::Free);
        survey.room_empty = room(nodes, group, &survey.nodes, Room::Empty);
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

fn lines(catalog: &Catalog, group: &GroupShape) -> Vec<Line> {
    let mut lines: Vec<Line> = group
        .demand
        .iter()
        .map(|(resource, need)| Line {
            resource: *resource,
            name: catalog.name(*resource),
            need: *need,
            capacity: 0,
            largest: 0,
            free: 0,
            nodes_free: 0,
            most: 0,
            places: 0,
            held_by_gangs: 0,
            held_by_others: 0,
        })
        .collect();
    let rank = |line: &Line| {
        let packed_first = Some(line.resource) == group.device;
        (!packed_first, !line.name.is_device(), line.name.clone())
    };
    lines.sort_by_cached_key(rank);
    lines
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
fn room(nodes: &Nodes, group: &GroupShape, matching: &[NodeIdx], room: Room) -> u64 {
    let fit = Fit::new(nodes, group, room);
    matching.iter().fold(0, |sum, node| {
        u64::from(fit.pods(*node, group.count)).saturating_add(sum)
    })
}
