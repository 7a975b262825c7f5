//! One group: its pods in one domain, or in few.
//!
//! A domain that holds all is looked for at the finest level first; among equals
//! the tightest is taken, then the first by name. Where none holds all and that is
//! no must, the largest are filled until the rest fits into one, then the tightest
//! that holds it: the fewest domains there can be, since pods of a group are alike
//! (as the best-fit profile of Kueue's topology-aware scheduling, KEP-2724, and
//! Slurm's topology/tree do). Within a domain the finer levels are gone through in
//! the same way. Nodes that are in no domain come last.

use std::cmp::Reverse;
use std::ops::Range;

use super::super::pack::Runs;
use super::super::place::fill_among;
use super::super::ranking::Ranked;
use super::Near;
use crate::gang::Strategy;
use crate::state::{Layout, NodeIdx, Signature};

/// A node that holds pods of the group.
#[derive(Clone, Copy, Debug)]
struct Seat {
    /// In the row of the topology.
    place: u32,
    node: NodeIdx,
    pods: u32,
}

/// What stays the same while a group is placed.
pub(super) struct Close<'a> {
    pub(super) ranked: &'a Ranked<'a>,
    pub(super) signature: &'a Signature,
    pub(super) strategy: Strategy,
    pub(super) layout: &'a Layout,
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
            let (_, pods) = wanted(*node).filter(|_| allows(*node))?;
            let place = self.layout.position(*node);
            Some(Seat {
                place,
                node: *node,
                pods,
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

    /// All in one domain of that level or a finer one. False: none holds them.
    fn in_one(&self, seats: &[Seat], count: u32, depth: usize, runs: &mut Runs) -> bool {
        for depth in (depth..self.layout.depths()).rev() {
            let parts = self.parts(seats, depth);
            let holds = |part: &&Part| part.domain.is_some() && part.pods >= u64::from(count);
            // Of equal ones the first.
            let tightest = parts.iter().filter(holds).min_by_key(|part| part.pods);
            if let Some(part) = tightest {
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
        // Stable: of equal ones the first goes first.
        domains.sort_by_key(|part| Reverse(part.pods));
        let finer = depth.saturating_add(1);
        let mut rest = count;
        let mut open = domains.as_slice();
        while let Some((largest, others)) = open.split_first() {
            let part = match tightest(open, rest) {
                Some(part) => part,
                None => largest,
            };
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
            runs.extend(seats.iter().map(|seat| (seat.node, seat.pods)));
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

/// Of parts with the most pods first, the tightest that holds so many.
fn tightest(parts: &[Part], pods: u32) -> Option<&Part> {
    let hold = parts.partition_point(|part| part.pods >= u64::from(pods));
    let last = parts.get(hold.checked_sub(1)?)?;
    parts.get(parts.partition_point(|part| part.pods > last.pods))
}
