//! Places the pods of one group in one domain, or in few domains.
//!
//! The filler looks for a domain that holds all pods, at the finest level first. Among several it
//! takes the best fit (`best_fit`). If no domain holds all pods and the request does not require
//! one, it fills the largest domains until the rest fits into one domain. It puts the rest into the
//! best fit for it. This uses the fewest domains possible, because pods of a group are identical
//! (as the best-fit profile of Kueue's topology-aware scheduling, KEP-2724, and Slurm's
//! topology/tree do). Within a domain it tries the finer levels in the same way. Nodes that are in
//! no domain come last.

use std::cmp::Reverse;

use super::super::group_place::fill_among;
use super::super::ranking::CurrentRanking;
use super::super::request::PodRuns;
use super::best_fit::{FreeCapacity, FreeLookup};
use super::even_split::split_evenly;
use super::gang_topology::ResolvedRequest;
use super::seats::{Seat, SeatDomain, SeatRow};
use super::slices::ResolvedSlices;
use crate::gang::PlacementStrategy;
use crate::state::{ConstraintSignature, Layout, NodeIdx};

/// A level of which the pods use as few domains as possible.
#[derive(Clone, Copy)]
struct PreferredLevel {
    depth: usize,
    /// True if these domains get equal numbers of pods, as far as possible.
    balanced: bool,
}

/// The inputs that stay the same while a group is placed.
pub(super) struct GroupFiller<'a> {
    pub(super) ranked: &'a CurrentRanking<'a>,
    pub(super) signature: &'a ConstraintSignature,
    pub(super) strategy: PlacementStrategy,
    pub(super) layout: &'a Layout,
    pub(super) slices: &'a ResolvedSlices,
    pub(super) free: FreeLookup<'a>,
}

impl GroupFiller<'_> {
    /// Places all pods of a group on some of the nodes. None if the nodes do not hold them that
    /// close together.
    pub(super) fn fill(
        &self,
        count: u32,
        near: &ResolvedRequest,
        among: &[NodeIdx],
        allows: &dyn Fn(NodeIdx) -> bool,
    ) -> Option<PodRuns> {
        let mut wanted = self.ranked.rank_lookup();
        let seat = |node: &NodeIdx| {
            allows(*node).then(|| {
                let (free, pods) = match wanted(*node) {
                    Some((order, pods)) => (FreeCapacity::from_class_rank(order), pods),
                    None => (self.free.get(*node), 0),
                };
                Seat {
                    position: self.layout.position(*node),
                    node: *node,
                    pods,
                    free,
                }
            })
        };
        let mut seats: Vec<Seat> = among.iter().filter_map(seat).collect();
        seats.sort_unstable_by_key(|seat| seat.position);
        if let Some(finest) = self.slices.finest() {
            seats.retain(|seat| self.layout.domain_at(finest, seat.position).is_some());
        }
        let mut runs = PodRuns::new();
        let depth = near.level.depth;
        // The outermost slices are also in few domains.
        let preferred = [near.preferred_depth(), self.slices.coarsest()];
        let preferred = preferred.into_iter().flatten().min();
        // Slices at a coarser level decide how many pods a domain of the preferred level gets.
        let few = PreferredLevel {
            depth: preferred.unwrap_or(depth),
            balanced: near.balanced && preferred == near.preferred_depth(),
        };
        let placed = match (near.is_required(), preferred) {
            (false, _) => self.fill_evenly_or_few(&seats, count, few, &mut runs),
            (true, None) => self.fill_one(&seats, count, depth, &mut runs),
            (true, Some(finer)) => {
                self.fill_one(&seats, count, finer, &mut runs)
                    || self.fill_one_by_few(&seats, count, (depth, few), &mut runs)
            }
        };
        placed.then_some(runs)
    }

    fn seat_row<'s>(&'s self, seats: &'s [Seat]) -> SeatRow<'s> {
        SeatRow {
            layout: self.layout,
            signature: self.signature,
            slices: self.slices,
            seats,
        }
    }

    /// Places all pods in one domain of that level or a finer one. False: no domain holds them.
    fn fill_one(&self, seats: &[Seat], count: u32, depth: usize, runs: &mut PodRuns) -> bool {
        for depth in (depth..self.layout.depths()).rev() {
            if let Some(part) = self.seat_row(seats).domains_for(count, depth).first() {
                let seats = seats.get(part.seats.clone()).unwrap_or(&[]);
                return self.fill_within(seats, count, depth.saturating_add(1), runs);
            }
        }
        false
    }

    /// Places all pods in one domain of the required level and, within it, in as few domains of the
    /// preferred level as possible. False: no domain holds them.
    fn fill_one_by_few(
        &self,
        seats: &[Seat],
        count: u32,
        (required, few): (usize, PreferredLevel),
        runs: &mut PodRuns,
    ) -> bool {
        let row = self.seat_row(seats);
        let domains = row.domains_for(count, required);
        // Among domains that need equally few finer domains, and allow an equally even split, the
        // first is the best fit.
        let inside = |part: &SeatDomain| seats.get(part.seats.clone()).unwrap_or(&[]);
        let least = domains.iter().min_by_key(|part| {
            let split = few
                .balanced
                .then(|| self.even_split(inside(part), count, few.depth));
            let smallest = split
                .flatten()
                .and_then(|parts| parts.iter().map(|(_, n)| *n).min());
            (
                row.domains_needed(part, count, few.depth),
                Reverse(smallest),
            )
        });
        least.is_some_and(|part| self.fill_evenly_or_few(inside(part), count, few, runs))
    }

    /// Places the pods in as few domains of a level as possible, and splits them evenly over these
    /// domains if the request says so and the domains hold all pods.
    fn fill_evenly_or_few(
        &self,
        seats: &[Seat],
        count: u32,
        few: PreferredLevel,
        runs: &mut PodRuns,
    ) -> bool {
        if !few.balanced {
            return self.fill_few(seats, count, few.depth, runs);
        }
        if self.fill_one(seats, count, few.depth, runs) {
            return true;
        }
        let Some(parts) = self.even_split(seats, count, few.depth) else {
            return self.fill_few(seats, count, few.depth, runs);
        };
        let finer = few.depth.saturating_add(1);
        parts.into_iter().all(|(part, pods)| {
            let seats = seats.get(part.seats).unwrap_or(&[]);
            self.fill_within(seats, pods, finer, runs)
        })
    }

    /// Splits the pods evenly over as few domains of a level as possible, in whole slices. Returns
    /// the domains with their numbers of pods. None: the domains together hold too few pods.
    fn even_split(
        &self,
        seats: &[Seat],
        count: u32,
        depth: usize,
    ) -> Option<Vec<(SeatDomain, u32)>> {
        let row = self.seat_row(seats);
        let mut domains = row.domains(depth);
        domains.retain(|part| part.domain.is_some() && part.pods > 0);
        let domains = row.sorted(depth, count, domains);
        let unit = u64::from(self.slices.largest_within(depth));
        let slices = |pods: u64| pods.checked_div(unit).unwrap_or(pods);
        let rooms: Vec<u64> = domains.iter().map(|part| slices(part.pods)).collect();
        let parts = split_evenly(&rooms, slices(u64::from(count)))?;
        let mut domains: Vec<Option<SeatDomain>> = domains.into_iter().map(Some).collect();
        let parts = parts.into_iter().map(|(at, slices)| {
            let part = domains.get_mut(at)?.take()?;
            Some((part, u32::try_from(slices.saturating_mul(unit)).ok()?))
        });
        parts.collect()
    }

    /// Places the pods in as few domains of that level as possible.
    fn fill_few(&self, seats: &[Seat], count: u32, depth: usize, runs: &mut PodRuns) -> bool {
        if depth >= self.layout.depths() {
            return self.fill_anywhere(seats, count, runs);
        }
        if self.fill_one(seats, count, depth, runs) {
            return true;
        }
        let row = self.seat_row(seats);
        let (mut domains, without): (Vec<SeatDomain>, Vec<SeatDomain>) = row
            .domains(depth)
            .into_iter()
            .partition(|part| part.domain.is_some());
        domains.retain(|part| part.pods > 0);
        let domains = row.sorted(depth, count, domains);
        let mut domains: Vec<(usize, SeatDomain)> = domains.into_iter().enumerate().collect();
        // The sort is stable: among equally large domains the best fit comes first.
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
            if !self.fill_within(seats, pods, finer, runs) {
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
        self.fill_anywhere(&without, rest, runs)
    }

    /// Places the pods on these seats, which hold them, in as few domains of that level as
    /// possible.
    fn fill_within(&self, seats: &[Seat], count: u32, depth: usize, runs: &mut PodRuns) -> bool {
        let all = seats.iter().map(|seat| u64::from(seat.pods));
        if all.fold(0, u64::saturating_add) == u64::from(count) {
            let used = seats.iter().filter(|seat| seat.pods > 0);
            runs.extend(used.map(|seat| (seat.node, seat.pods)));
            return true;
        }
        let has_slices = self.slices.finest().is_some_and(|finest| depth <= finest);
        match self.strategy {
            // The pods must be spread, so no level finer than that of the slices groups them.
            PlacementStrategy::Spread if !has_slices => self.fill_anywhere(seats, count, runs),
            PlacementStrategy::Pack | PlacementStrategy::Spread => {
                self.fill_few(seats, count, depth, runs)
            }
        }
    }

    fn fill_anywhere(&self, seats: &[Seat], count: u32, runs: &mut PodRuns) -> bool {
        let among = seats.iter().map(|seat| (seat.node, seat.pods));
        let how = (self.strategy, self.signature);
        let placed = fill_among(self.ranked, count, how, among);
        let found = placed.is_some();
        runs.extend(placed.into_iter().flatten());
        found
    }
}
