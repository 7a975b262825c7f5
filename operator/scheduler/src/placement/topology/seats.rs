//! The nodes that a group may use, by domain.

use std::ops::Range;

use super::best_fit::{FreeCapacity, PreferenceDistance, TopologyRow};
use super::domain_counts::min_domains;
use super::slices::ResolvedSlices;
use crate::state::{ConstraintSignature, Layout, NodeIdx};

/// A node that a group may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    /// Its place in the row of the topology.
    pub(super) position: u32,
    pub(super) node: NodeIdx,
    /// Number of the group's pods that the node holds; 0 if too little is free.
    pub(super) pods: u32,
    pub(super) free: FreeCapacity,
}

/// Consecutive seats in one domain, or in none.
pub(super) struct SeatDomain {
    pub(super) domain: Option<u32>,
    pub(super) seats: Range<usize>,
    /// The pods that the seats hold in whole slices.
    pub(super) pods: u64,
}

/// Seats of a group in the order of the topology.
#[derive(Clone, Copy)]
pub(super) struct SeatRow<'a> {
    pub(super) layout: &'a Layout,
    pub(super) signature: &'a ConstraintSignature,
    pub(super) slices: &'a ResolvedSlices,
    pub(super) seats: &'a [Seat],
}

impl SeatRow<'_> {
    /// Returns the seats by their domains of a level.
    pub(super) fn domains(&self, depth: usize) -> Vec<SeatDomain> {
        let mut parts: Vec<SeatDomain> = Vec::new();
        let mut slices = self.slices.counter(self.layout, depth);
        for (at, seat) in self.seats.iter().enumerate() {
            let domain = self.layout.domain_at(depth, seat.position);
            let end = at.saturating_add(1);
            match parts.last_mut() {
                Some(part) if part.domain == domain => part.seats.end = end,
                last => {
                    if let Some(part) = last {
                        part.pods = slices.take();
                    }
                    parts.push(SeatDomain {
                        domain,
                        seats: at..end,
                        pods: 0,
                    });
                }
            }
            slices.add(seat.position, u64::from(seat.pods));
        }
        if let Some(part) = parts.last_mut() {
            part.pods = slices.take();
        }
        parts
    }

    /// Sorts domains of a level by best fit for `count` pods.
    pub(super) fn sorted(
        &self,
        depth: usize,
        count: u32,
        parts: Vec<SeatDomain>,
    ) -> Vec<SeatDomain> {
        let seat = |at: usize| self.seats.get(at);
        let row = TopologyRow {
            layout: self.layout,
            len: self.seats.len(),
            position: |at| seat(at).map_or(u32::MAX, |seat| seat.position),
            free_capacity: |at| seat(at).map_or_else(FreeCapacity::default, |seat| seat.free),
            has_tiers: self.signature.has_tiers(),
        };
        let distance = |part: &SeatDomain| {
            let seats = self.seats.get(part.seats.clone()).unwrap_or(&[]).iter();
            let seats = seats.map(|seat| (seat.node, seat.pods));
            PreferenceDistance::for_pods(self.signature, u64::from(count), seats)
        };
        row.sorted(depth, parts, |part| part.seats.clone(), distance)
    }

    /// Returns the smallest number of domains of level `depth` inside `part` that hold `count`
    /// pods.
    pub(super) fn domains_needed(&self, part: &SeatDomain, count: u32, depth: usize) -> usize {
        let seats = SeatRow {
            seats: self.seats.get(part.seats.clone()).unwrap_or(&[]),
            ..*self
        };
        let parts = seats.domains(depth).into_iter();
        let pods = parts.filter(|part| part.domain.is_some());
        min_domains(pods.map(|part| u128::from(part.pods)), u128::from(count))
    }

    /// Returns the domains of a level that each hold `count` pods, best fit first.
    pub(super) fn domains_for(&self, count: u32, depth: usize) -> Vec<SeatDomain> {
        let mut parts = self.domains(depth);
        parts.retain(|part| part.domain.is_some() && part.pods >= u64::from(count));
        self.sorted(depth, count, parts)
    }
}
