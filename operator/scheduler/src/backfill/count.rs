//! How many pods of a gang there would be room for, counted as room becomes free.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::plan::Hold;
use crate::state::{Catalog, NodeIdx, Nodes, ResourceIdx, Shape};

/// What has become free on a node.
type Amounts = SmallVec<[(ResourceIdx, i64); 6]>;

/// For each task group, how many of its pods fit onto the nodes that it may use: an
/// upper bound, since groups may want the same room, and shares the same device.
pub(super) struct Count<'a> {
    shape: &'a Shape,
    groups: Vec<Room>,
    freed: BTreeMap<NodeIdx, Amounts>,
}

struct Room {
    /// By node; None where it may not use it.
    pods: Vec<Option<u32>>,
    all: u64,
}

impl<'a> Count<'a> {
    pub(super) fn new(
        nodes: &Nodes,
        catalog: &Catalog,
        shape: &'a Shape,
        excluded: &[NodeIdx],
    ) -> Self {
        let room = |group: &crate::state::GroupShape| {
            let mut room = Room {
                pods: vec![None; nodes.len()],
                all: 0,
            };
            let Some(signature) = catalog.signature(group.signature) else {
                return room;
            };
            for node in signature.nodes().filter(|n| !excluded.contains(n)) {
                let free = |resource| nodes.free(resource, node);
                let fits = fit(&group.demand, group.count, free);
                if let Some(slot) = room.pods.get_mut(node.at()) {
                    *slot = Some(fits);
                    room.all = room.all.saturating_add(u64::from(fits));
                }
            }
            room
        };
        Self {
            groups: shape.groups.iter().map(room).collect(),
            shape,
            freed: BTreeMap::new(),
        }
    }

    /// Whether a task group may use the node.
    pub(super) fn concerns(&self, node: NodeIdx) -> bool {
        let may = |room: &Room| room.pods.get(node.at()).is_some_and(Option::is_some);
        self.groups.iter().any(may)
    }

    /// What a gang holds becomes free.
    pub(super) fn free(&mut self, nodes: &Nodes, hold: &Hold) {
        let freed = self.freed.entry(hold.node).or_default();
        for (resource, need) in hold.demand.iter() {
            let amount = need.saturating_mul(i64::from(hold.pods));
            add(freed, *resource, amount);
            if let Some((along, amount)) = nodes.along(*resource, i128::from(amount)) {
                add(freed, along, i64::try_from(amount).unwrap_or(i64::MAX));
            }
        }
        for (group, room) in self.shape.groups.iter().zip(&mut self.groups) {
            let Some(Some(pods)) = room.pods.get_mut(hold.node.at()) else {
                continue;
            };
            let free = |resource| {
                let more = freed.iter().find(|(r, _)| *r == resource);
                let more = more.map_or(0, |(_, n)| *n);
                nodes.free(resource, hold.node).saturating_add(more)
            };
            let fits = fit(&group.demand, group.count, free);
            room.all = room.all.saturating_sub(u64::from(*pods));
            room.all = room.all.saturating_add(u64::from(fits));
            *pods = fits;
        }
    }

    /// Whether every task group alone would fit if all gangs ended.
    pub(super) fn is_possible(&self, nodes: &Nodes) -> bool {
        let groups = self.shape.groups.iter().zip(&self.groups);
        groups.into_iter().all(|(group, room)| {
            let mut all = 0_u64;
            for (at, _) in room.pods.iter().enumerate().filter(|(_, p)| p.is_some()) {
                let node = NodeIdx::of(at);
                let free = |resource| {
                    let (_, others) = nodes.held(resource, node);
                    let has = i128::from(nodes.allocatable(resource, node));
                    i64::try_from(has.saturating_sub(others)).unwrap_or(0)
                };
                all = all.saturating_add(u64::from(fit(&group.demand, group.count, free)));
            }
            all >= u64::from(group.count)
        })
    }

    /// Whether every task group alone would fit.
    pub(super) fn is_enough(&self) -> bool {
        let groups = self.shape.groups.iter().zip(&self.groups);
        groups.into_iter().all(|(g, r)| r.all >= u64::from(g.count))
    }
}

fn add(freed: &mut Amounts, resource: ResourceIdx, amount: i64) {
    match freed.iter_mut().find(|(r, _)| *r == resource) {
        Some((_, sum)) => *sum = sum.saturating_add(amount),
        None => freed.push((resource, amount)),
    }
}

/// How many pods fit into what is free, at most so many.
fn fit(demand: &[(ResourceIdx, i64)], most: u32, free: impl Fn(ResourceIdx) -> i64) -> u32 {
    let mut pods = i64::from(most);
    for (resource, need) in demand {
        let room = free(*resource).max(0);
        if need.checked_mul(pods).is_none_or(|needs| needs > room) {
            pods = room.checked_div(*need).unwrap_or(0);
        }
    }
    u32::try_from(pods).unwrap_or(0)
}
