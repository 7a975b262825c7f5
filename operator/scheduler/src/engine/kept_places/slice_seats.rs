//! Completes slices in which only some pods keep their nodes.

use smallvec::SmallVec;

use super::super::Engine;
use super::seats::GroupSeats;
use crate::placement::{self, GangTopology, PlacementRequest, UndoLog};
use crate::state::{GangShape, GroupShape, NodeIdx};

/// Consecutive pods of one group that need nodes in one domain.
struct PartialSlice {
    /// Numbers of the pods without a node.
    pods: Vec<usize>,
    /// Nodes outside the domain.
    outside: Vec<NodeIdx>,
    /// The missing pods, as a group to place.
    group: GroupShape,
}

impl Engine {
    /// If some pods of a slice have a seat, finds nodes in the same domain for its other pods, and
    /// charges these nodes in the log. Skips slices without any seat. None: a domain has no room.
    pub(super) fn complete_slices(
        &mut self,
        wish: &PlacementRequest<'_>,
        seats: &mut [GroupSeats],
        log: &mut UndoLog,
    ) -> Option<()> {
        let topology = GangTopology::for_shape(&self.nodes, wish.shape)?;
        for (at, (group, seats)) in wish.shape.groups.iter().zip(seats).enumerate() {
            let Some(split) = topology.slices(wish.shape, at) else {
                continue;
            };
            let layers = split.slices.layers();
            // Inner slices first: then the pods that an outer slice lacks are whole inner slices.
            for (number, layer) in layers.iter().enumerate().rev() {
                let inner = layers.len().saturating_sub(number).saturating_sub(1);
                let inner = group.slices.len().saturating_sub(inner);
                let inner = group.slices.get(inner..).unwrap_or(&[]);
                let size = usize::try_from(layer.pods).unwrap_or(usize::MAX);
                for first in (0..seats.len()).step_by(size) {
                    let end = first.saturating_add(size).min(seats.len());
                    let slice = seats.get(first..end).unwrap_or(&[]);
                    let Some(node) = slice.iter().flatten().next() else {
                        continue;
                    };
                    let domain = |node| split.layout.domain(layer.depth, node);
                    let own = domain(*node);
                    let missing = (first..end).zip(slice).filter(|(_, seat)| seat.is_none());
                    let pods: Vec<usize> = missing.map(|(pod, _)| pod).collect();
                    let all = self.nodes.iter().map(|(node, _)| node);
                    let partial = PartialSlice {
                        outside: all.filter(|node| domain(*node) != own).collect(),
                        group: GroupShape {
                            count: u32::try_from(pods.len()).unwrap_or(u32::MAX),
                            topology: None,
                            slices: inner.to_vec(),
                            ..group.clone()
                        },
                        pods,
                    };
                    if !partial.pods.is_empty() {
                        self.complete_slice(wish, partial, seats, log)?;
                    }
                }
            }
        }
        Some(())
    }

    fn complete_slice(
        &mut self,
        wish: &PlacementRequest<'_>,
        partial: PartialSlice,
        seats: &mut GroupSeats,
        log: &mut UndoLog,
    ) -> Option<()> {
        let mut excluded: SmallVec<[NodeIdx; 4]> = wish.excluded.iter().copied().collect();
        excluded.extend(partial.outside);
        let shape = GangShape::new(vec![partial.group], wish.shape.excluded.clone(), None);
        let wish = PlacementRequest {
            shape: &shape,
            strategy: wish.strategy,
            excluded: &excluded,
        };
        let found = placement::place(
            &mut self.nodes,
            &mut self.packing,
            &self.catalog,
            &wish,
            log,
        );
        let runs = found.ok()?.into_iter().flatten();
        let nodes = runs.flat_map(|(node, pods)| (0..pods).map(move |_| node));
        for (pod, node) in partial.pods.into_iter().zip(nodes) {
            if let Some(seat) = seats.get_mut(pod) {
                *seat = Some(node);
            }
        }
        Some(())
    }
}
