//! One group: its pods in one domain, or in few.
//!
//! A domain that holds all is looked for at the finest level first; among several
//! the best fit is taken (`best_fit`). Where none holds all and that is no must,
//! the largest are filled until the rest fits into one, then the best fit that
//! holds the rest: the fewest domains there can be, since pods of a group are alike
//! (as the best-fit profile of Kueue's topology-aware scheduling, KEP-2724, and
//! Slurm's topology/tree do). Within a domain the finer levels are gone through in
//! the same way. Nodes that are in no domain come last.

use std::cmp::Reverse;
use std::ops::Range;

use super::super::pack::Runs;
use super::super::place::fill_among;
use super::super::ranking::Ranked;
use super::Near;
use super::best_fit::{Distance, FreeCapacity, FreeLookup, Row};
use crate::gang::Strategy;
use crate::state::{Layout, NodeIdx, Signature};

/// A node that the group may use.
#[derive(Clone, Copy, Debug)]
struct Seat {
    /// In the row of the topology.
    place: u32,
    node: NodeIdx,
    /// How many of its pods the node holds; 0 where too little is free.
    pods: u32,
    free: FreeCapacity,
}

/// What stays the same while a group is placed.
pub(super) struct Close<'a> {
    pub(super) ranked: &'a Ranked<'a>,
    pub(super) signature: &'a Signature,
    pub(super) strategy: Strategy,
    pub(super) layout: &'a Layout,
    pub(super) free: FreeLookup<'a>,
}

/// Consecutive seats in one domain, or in none.
struct Part {
    domain: Option<u32>,
    seats: Range<usize>,
    pods: u64,
}

impl Close<'_> {
    /// Places all pods of a group on some of the nodes. None where they do not
    /// hold them so close.
    pub(super) fn fill(
        &self,
        count: u32,
        near: &Near,
        among: &[NodeIdx],
        allows: &dyn Fn(NodeIdx) -> bool,
    ) -> Option<Runs> {
        let mut wanted = self.ranked.wanted();
        let seat = |node: &NodeIdx| {
            allows(*node).then(|| {
                let (free, pods) = match wanted(*node) {
                    Some((order, pods)) => (FreeCapacity::of_class(order), pods),
                    None => (self.free.of(*node), 0),
                };
                Seat {
                    place: self.layout.position(*node),
                    node: *node,
                    pods,
                    free,
                }
            })
        };
        let mut seats: Vec<Seat> = among.iter().filter_map(seat).collect();
        seats.sort_unstable_by_key(|seat| seat.place);
        let mut runs = Runs::new();
        let depth = near.level.depth;
        let placed = if near.is_required() {
            self.in_one(&seats, count, depth, &mut runs)
        } else {
            self.in_few(&seats, count, depth, &mut runs)
        };
        placed.then_some(runs)
    }

    /// The seats by their domains of a level.
    fn parts(&self, seats: &[Seat], depth: usize) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for (at, seat) in seats.iter().enumerate() {
            let domain = self.layout.domain_at(depth, seat.place);
            let end = at.saturating_add(1);
            let pods = u64::from(seat.pods);
            match parts.last_mut() {
                Some(part) if part.domain == domain => {
                    part.seats.end = end;
                    part.pods = part.pods.saturating_add(pods);
                }
                _ => parts.push(Part {
                    domain,
                    seats: at..end,
                    pods,
                }),
            }
        }
        parts
    }

    /// Sorts domains of a level that so many pods are to go into, best fit first.
    fn sorted(&self, seats: &[Seat], depth: usize, count: u32, parts: Vec<Part>) -> Vec<Part> {
        let seat = |at: usize| seats.get(at);
        let row = Row {
            layout: self.layout,
            len: seats.len(),
            place: |at| seat(at).map_or(u32::MAX, |seat| seat.place),
            free: |at| seat(at).map_or_else(FreeCapacity::default, |seat| seat.free),
            has_tiers: self.signature.has_tiers(),
        };
        let distance = |part: &Part| {
            let seats = seats.get(part.seats.clone()).unwrap_or(&[]).iter();
            let seats = seats.map(|seat| (seat.node, seat.pods));
            Distance::of(self.signature, u64::from(count), seats)
        };
        row.sorted(depth, parts, |part| part.seats.clone(), distance)
    }

    /// All in one domain of that level or a finer one. False: none holds them.
    fn in_one(&self, seats: &[Seat], count: u32, depth: usize, runs: &mut Runs) -> bool {
        for depth in (depth..self.layout.depths()).rev() {
            let mut parts = self.parts(seats, depth);
            parts.retain(|part| part.domain.is_some() && part.pods >= u64::from(count));
            let sorted = self.sorted(seats, depth, count, parts);
            if let Some(part) = sorted.first() {
                let seats = seats.get(part.seats.clone()).unwrap_or(&[]);
                return self.within(seats, count, depth.saturating_add(1), runs);
            }
        }
        false
    }

    /// In as few domains of that level as can be.
    fn in_few(&self, seats: &[Seat], count: u32, depth: usize, runs: &mut Runs) -> bool {
        if depth >= self.layout.depths() {
            return self.anywhere(seats, count, runs);
        }
        if self.in_one(seats, count, depth, runs) {
            return true;
        }
        let (mut domains, without): (Vec<Part>, Vec<Part>) = self
            .parts(seats, depth)
            .into_iter()
            .partition(|part| part.domain.is_some());
        domains.retain(|part| part.pods > 0);
        let domains = self.sorted(seats, depth, count, domains);
        let mut domains: Vec<(usize, Part)> = domains.into_iter().enumerate().collect();
        // Stable: of equally large ones the best fit goes first.
        domains.sort_by_key(|(_, part)| Reverse(part.pods));
        let finer = depth.saturating_add(1);
        let mut rest = count;
        let mut open = domains.as_slice();
        while let Some(((_, largest), others)) = open.split_first() {
            let hold = open.partition_point(|(_, part)| part.pods >= u64::from(rest));
            let best_fit = open
                .get(..hold)
                .unwrap_or(&[])
                .iter()
                .min_by_key(|(fit, _)| *fit);
            let part = best_fit.map_or(largest, |(_, part)| part);
            let pods = u32::try_from(part.pods).unwrap_or(u32::MAX).min(rest);
            let seats = seats.get(part.seats.clone()).unwrap_or(&[]);
            if !self.within(seats, pods, finer, runs) {
                return false;
            }
            rest = rest.saturating_sub(pods);
            if rest == 0 {
                return true;
            }
            open = others;
        }
        let without: Vec<Seat> = without
            .iter()
            .flat_map(|part| seats.get(part.seats.clone()).unwrap_or(&[]))
            .copied()
            .collect();
        self.anywhere(&without, rest, runs)
    }

    /// On these seats, which hold them, in as few domains as can be of that level.
    fn within(&self, seats: &[Seat], count: u32, depth: usize, runs: &mut Runs) -> bool {
        let all = seats.iter().map(|seat| u64::from(seat.pods));
        if all.fold(0, u64::saturating_add) == u64::from(count) {
            let used = seats.iter().filter(|seat| seat.pods > 0);
            runs.extend(used.map(|seat| (seat.node, seat.pods)));
            return true;
        }
        match self.strategy {
            Strategy::Pack => self.in_few(seats, count, depth, runs),
            // What is to be spread is not drawn together any further.
            Strategy::Spread => self.anywhere(seats, count, runs),
        }
    }

    fn anywhere(&self, seats: &[Seat], count: u32, runs: &mut Runs) -> bool {
        let among = seats.iter().map(|seat| (seat.node, seat.pods));
        let how = (self.strategy, self.signature);
        let placed = fill_among(self.ranked, count, how, among);
        let found = placed.is_some();
        runs.extend(placed.into_iter().flatten());
        found
    }
}
