//! Returns a gang to the nodes that are kept for it.

use smallvec::SmallVec;

use super::super::Engine;
use super::super::flavor_assignment::FlavorAssignment;
use crate::gang::Gang;
use crate::placement::{self, GangTopology, NodeCharge, PlacementRequest, PodRuns, UndoLog};
use crate::state::{GangShape, GroupShape, NodeIdx};

/// The node of each pod of a group, by index. None: any node.
pub(super) type GroupSeats = Vec<Option<NodeIdx>>;

impl Engine {
    /// Returns the flavor assignment of the kept place. The engine tries it before better ones
    /// elsewhere.
    pub(in crate::engine) fn kept_assignment(
        &self,
        gang: &Gang,
        ways: &[FlavorAssignment],
    ) -> Option<usize> {
        if self.kept_places.is_empty() {
            return None;
        }
        let keep = self.kept_places.get(self.gangs.find(&gang.id)?)?;
        ways.iter().position(|way| way.choices == keep.choices)
    }

    /// True if all the quota that a gang requests is kept for it.
    pub(in crate::engine) fn has_kept_quota(&self, gang: &Gang, way: &FlavorAssignment) -> bool {
        let keep = self
            .gangs
            .find(&gang.id)
            .and_then(|at| self.kept_places.get(at));
        keep.is_some_and(|keep| {
            let mut asks = way.demand.iter();
            keep.gang.queue == gang.queue && asks.all(|(what, n)| n <= keep.charge.amount(what))
        })
    }

    /// True if a place is kept for a gang.
    pub(in crate::engine) fn has_kept_place(&self, gang: &Gang) -> bool {
        !self.kept_places.is_empty()
            && self
                .gangs
                .find(&gang.id)
                .is_some_and(|at| self.kept_places.contains(at))
    }

    /// True if the pods of a gang should return to their nodes. The pods of a gang for which nodes
    /// are provisioned go to the best nodes that are there.
    fn has_seats(&self, gang: &Gang) -> bool {
        self.has_kept_place(gang) && self.provisioning(&gang.id).is_none()
    }

    /// Places a gang so that every pod with kept room returns to its node. The caller must have
    /// lifted the kept place. None: there is no such placement, or no place is kept.
    pub(in crate::engine) fn place_on_seats(
        &mut self,
        gang: &Gang,
        wish: &PlacementRequest<'_>,
        log: &mut UndoLog,
    ) -> Option<Vec<PodRuns>> {
        if !self.has_seats(gang) {
            return None;
        }
        let mut seated = UndoLog::default();
        let mut seats = self.find_seats(gang, wish, &mut seated)?;
        let mut others = UndoLog::default();
        let close = GangTopology::for_shape(&self.nodes, wish.shape);
        let found = close.and_then(|close| {
            self.complete_slices(wish, &close, &mut seats, &mut others);
            let found = self.place_unseated(wish, &seats, &mut others)?;
            close.allows(&found).then_some(found)
        });
        if found.is_none() {
            others.roll_back(&mut self.nodes);
            seated.roll_back(&mut self.nodes);
            return None;
        }
        log.append(seated);
        log.append(others);
        found
    }

    /// Does the same as if `leaving` were gone. Changes nothing.
    pub(in crate::engine) fn place_on_seats_without<'h>(
        &mut self,
        gang: &Gang,
        wish: &PlacementRequest<'_>,
        leaving: impl IntoIterator<Item = &'h NodeCharge>,
    ) -> Option<Vec<PodRuns>> {
        if !self.has_seats(gang) {
            return None;
        }
        let mut log = UndoLog::default();
        for hold in leaving {
            log.uncharge(&mut self.nodes, hold);
        }
        let mut placed = UndoLog::default();
        let found = self.place_on_seats(gang, wish, &mut placed);
        placed.roll_back(&mut self.nodes);
        log.roll_back(&mut self.nodes);
        found
    }

    /// Returns the kept nodes that are free and that the gang may use, and charges them in the log.
    /// None: there are none.
    fn find_seats(
        &mut self,
        gang: &Gang,
        wish: &PlacementRequest<'_>,
        log: &mut UndoLog,
    ) -> Option<Vec<GroupSeats>> {
        let keep = self.kept_places.get(self.gangs.find(&gang.id)?)?;
        let mut all: Vec<GroupSeats> = Vec::with_capacity(gang.groups.len());
        let mut any = false;
        for (group, shape) in gang.groups.iter().zip(&wish.shape.groups) {
            let mut seats: GroupSeats = (0..shape.count).map(|_| None).collect();
            let had = keep.gang.groups.iter().position(|g| g.name == group.name);
            let signature = self.catalog.signature(shape.signature);
            let kept = keep.pods.iter().filter(|pod| {
                Some(pod.group) == had
                    && pod.pod_is_gone
                    && pod.demand == shape.demand_idx
                    && !wish.excluded.contains(&pod.node)
                    && signature.is_some_and(|s| s.allows(pod.node))
            });
            for pod in kept {
                let Some(seat) = seats.get_mut(pod.index as usize) else {
                    continue;
                };
                let mut one = UndoLog::default();
                one.charge(&mut self.nodes, pod.node, &shape.demand, 1);
                if is_overbooked(&self.nodes, shape, pod.node) {
                    one.roll_back(&mut self.nodes);
                    continue;
                }
                log.append(one);
                *seat = Some(pod.node);
                any = true;
            }
            all.push(seats);
        }
        any.then_some(all)
    }

    /// Places the pods without a seat, together with the seats.
    fn place_unseated(
        &mut self,
        wish: &PlacementRequest<'_>,
        seats: &[GroupSeats],
        log: &mut UndoLog,
    ) -> Option<Vec<PodRuns>> {
        let groups = wish.shape.groups.iter().zip(seats);
        let groups = groups.map(|(group, seats)| {
            let without = seats.iter().filter(|seat| seat.is_none()).count();
            GroupShape {
                count: u32::try_from(without).unwrap_or(u32::MAX),
                ..group.clone()
            }
        });
        let others = GangShape::new(
            groups.collect(),
            wish.shape.excluded.clone(),
            wish.shape.topology.clone(),
        );
        let found = if others.groups.iter().all(|group| group.count == 0) {
            seats.iter().map(|_| PodRuns::new()).collect()
        } else {
            let mut excluded: SmallVec<[NodeIdx; 4]> = wish.excluded.iter().copied().collect();
            excluded.extend(self.nodes_outside_seat_domain(wish.shape, seats));
            let wish = PlacementRequest {
                shape: &others,
                strategy: wish.strategy,
                excluded: &excluded,
            };
            placement::place(
                &mut self.nodes,
                &mut self.packing,
                &self.catalog,
                &wish,
                log,
            )
            .ok()?
        };
        Some(
            seats
                .iter()
                .zip(&found)
                .map(|(s, f)| merge_seats(s, f))
                .collect(),
        )
    }

    /// Returns the nodes outside the domain of the seats, if all pods must be in one domain.
    fn nodes_outside_seat_domain(&self, shape: &GangShape, seats: &[GroupSeats]) -> Vec<NodeIdx> {
        let Some(near) = GangTopology::for_shape(&self.nodes, shape).and_then(|close| close.gang)
        else {
            return Vec::new();
        };
        if !near.is_required() {
            return Vec::new();
        }
        let domain = |node: NodeIdx| near.level.layout.domain(near.level.depth, node);
        let mut taken = seats.iter().flatten().flatten();
        let Some(own) = taken.next().map(|node| domain(*node)) else {
            return Vec::new();
        };
        let all = self.nodes.iter().map(|(node, _)| node);
        all.filter(|node| domain(*node) != own).collect()
    }
}

fn is_overbooked(nodes: &crate::state::Nodes, shape: &GroupShape, node: NodeIdx) -> bool {
    shape.demand.iter().any(|(resource, _)| {
        let device = nodes.shared_device(*resource);
        nodes.free(*resource, node) < 0 || device.is_some_and(|d| nodes.free(d, node) < 0)
    })
}

/// Returns the nodes of seats and other pods, in the order of pod indexes.
fn merge_seats(seats: &GroupSeats, found: &PodRuns) -> PodRuns {
    let mut others = nodes_by_pod(found);
    let mut runs = PodRuns::new();
    for seat in seats {
        let Some(node) = seat.or_else(|| others.next()) else {
            continue;
        };
        match runs.last_mut() {
            Some((last, pods)) if *last == node => *pods = pods.saturating_add(1),
            _ => runs.push((node, 1)),
        }
    }
    runs
}

/// Returns the node of each pod, in the order of the runs.
pub(super) fn nodes_by_pod(runs: &PodRuns) -> impl Iterator<Item = NodeIdx> {
    let nodes = runs.iter();
    nodes.flat_map(|(node, pods)| (0..*pods).map(move |_| *node))
}
