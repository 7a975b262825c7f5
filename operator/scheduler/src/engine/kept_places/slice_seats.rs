//! Completes slices in which only some pods keep their nodes.

use std::sync::Arc;

use super::super::Engine;
use super::seats::{GroupSeats, nodes_by_pod};
use crate::placement::{
    GangTopology, NodeCharge, PlacementRequest, ResolvedRequest, UndoLog, place_one_group,
};
use crate::state::{GangShape, GroupShape, NodeIdx};

/// The pods of a group that lack a node, in one slice.
struct PartialSlice<'a> {
    /// Numbers of these pods.
    pods: Vec<usize>,
    /// The domain of the slice, and the slices within it.
    request: ResolvedRequest,
    /// The nodes of that domain.
    nodes: &'a [NodeIdx],
}

impl Engine {
    /// If some pods of a slice have a seat, finds nodes in the same domain for its other pods, and
    /// charges these nodes in the log. If the domain has no room for them, takes back the seats of
    /// the outermost slice, which then moves as a whole.
    pub(super) fn complete_slices(
        &mut self,
        wish: &PlacementRequest<'_>,
        topology: &GangTopology,
        seats: &mut [GroupSeats],
        log: &mut UndoLog,
    ) {
        for (at, (group, seats)) in wish.shape.groups.iter().zip(seats).enumerate() {
            let Some(split) = topology.slices(wish.shape, at) else {
                continue;
            };
            let outermost = split.slices.layers().first().map(|layer| layer.pods);
            // Inner slices first: then the pods that an outer slice lacks are whole inner slices.
            for layer in split.slices.layers().iter().rev() {
                for slice in slices_of(seats.len(), layer.pods) {
                    let pods: Vec<usize> = slice
                        .clone()
                        .filter(|pod| seats.get(*pod).is_some_and(Option::is_none))
                        .collect();
                    let mut taken = slice.filter_map(|pod| *seats.get(pod)?);
                    let Some((first, seat)) = pods.first().copied().zip(taken.next()) else {
                        continue;
                    };
                    let domain = split.layout.domain(layer.depth, seat);
                    let stretch = domain.and_then(|domain| {
                        let mut domains = split.layout.domains(layer.depth);
                        domains.nth(usize::try_from(domain).ok()?)
                    });
                    let partial = PartialSlice {
                        pods,
                        request: split.request_within(*layer),
                        nodes: split.layout.nodes_in(stretch.unwrap_or(0..0)),
                    };
                    if !self.complete_slice(wish, group, partial, (seats, log)) {
                        let mut outer = slices_of(seats.len(), outermost.unwrap_or(1));
                        if let Some(outer) = outer.find(|outer| outer.contains(&first)) {
                            self.take_back_seats(group, outer, (seats, log));
                        }
                    }
                }
            }
        }
    }

    /// Returns false if the domain has no room; then nothing changes.
    fn complete_slice(
        &mut self,
        wish: &PlacementRequest<'_>,
        group: &GroupShape,
        partial: PartialSlice<'_>,
        (seats, log): (&mut GroupSeats, &mut UndoLog),
    ) -> bool {
        let missing = GroupShape {
            count: u32::try_from(partial.pods.len()).unwrap_or(u32::MAX),
            ..group.clone()
        };
        let shape = GangShape::new(vec![missing], wish.shape.excluded.clone(), None);
        let wish = PlacementRequest {
            shape: &shape,
            ..*wish
        };
        let found = place_one_group(
            &mut self.nodes,
            &mut self.packing,
            &self.catalog,
            &wish,
            (&partial.request, partial.nodes),
            log,
        );
        let Some(runs) = found else {
            return false;
        };
        for (pod, node) in partial.pods.into_iter().zip(nodes_by_pod(&runs)) {
            if let Some(seat) = seats.get_mut(pod) {
                *seat = Some(node);
            }
        }
        true
    }

    fn take_back_seats(
        &mut self,
        group: &GroupShape,
        slice: std::ops::Range<usize>,
        (seats, log): (&mut GroupSeats, &mut UndoLog),
    ) {
        for node in slice.filter_map(|pod| seats.get_mut(pod)?.take()) {
            let charge = NodeCharge {
                node,
                demand: Arc::clone(&group.demand),
                pods: 1,
                in_placed_gang: true,
            };
            log.uncharge(&mut self.nodes, &charge);
        }
    }
}

/// Returns the numbers of the pods of each slice.
fn slices_of(pods: usize, size: u32) -> impl Iterator<Item = std::ops::Range<usize>> {
    let size = usize::try_from(size).unwrap_or(usize::MAX).max(1);
    let starts = (0..pods).step_by(size);
    starts.map(move |first| first..first.saturating_add(size).min(pods))
}
