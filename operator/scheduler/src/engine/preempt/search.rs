//! Whom it takes: the fewest of the cheapest that make a gang fit.

use fixedbitset::FixedBitSet;

use super::super::Engine;
use super::super::ways::Way;
use super::asker::Asker;
use super::candidates::Candidate;
use super::field::{Ground, Search};
use super::{Leaver, Plan};
use crate::gang::Gang;
use crate::placement::{Rooms, Runs, Wish, excluded, place_without};
use crate::preemption::Budget;
use crate::queue::{BorrowWithin, Preemption, Reclaim};
use crate::queueing::{Signal, Wake};
use crate::state::NodeIdx;

/// Placements that are tried at most to do without single victims, where counting
/// alone does not tell; past it victims may be left that are not needed.
const TRIES: usize = 512;

/// Who is out, and what there is room for then.
struct Trial<'a> {
    out: FixedBitSet,
    rooms: Rooms,
    budget: Budget<'a>,
    ground: &'a Ground,
}

impl Engine {
    /// Who could make room for a gang in one of its ways, and the place it would
    /// then have. Everything is as before. Where nobody can, `wake` learns when that
    /// may have changed.
    ///
    /// Nobody is evicted on nodes that are `kept` for others.
    ///
    /// Surplus is asked first, then gangs in order, until there is room: so no more
    /// priority, and among equals no more work, is given up than must be. Those that turn out not to be
    /// needed are kept, the dearest first. Of a gang that must be in one domain that is
    /// done for each domain, and the cheapest is taken.
    ///
    /// Whoever is taken is needed and enough: by count for a gang of one group, else as
    /// [`crate::placement::place`] finds places. Two orders of asking are tried and not
    /// all, so where a claim on another queue is used up by one who turns out not to
    /// be needed, a way to make room may be missed.
    pub(in crate::engine) fn make_room(
        &mut self,
        asks: (&Gang, bool),
        (way, kept): (&Way, &[NodeIdx]),
        wake: &mut Wake,
    ) -> Option<Plan> {
        let asker = self.asker(asks, way)?;
        self.watch_claims(&asker, wake);
        let mut budget = Budget::new(&self.queues, asker.queue, &way.demand);
        let candidates = self.candidates(&asker, &mut budget);
        budget.end(&mut self.queues);
        let next = candidates.protected.iter().map(|(_, until)| *until).min();
        if let Some(next) = next {
            wake.at(next);
        }
        if candidates.list.is_empty() {
            return None;
        }
        if !kept.is_empty() {
            wake.on(Signal::Reservations, 1).on(Signal::Turns, 1);
        }
        let mut excluded = excluded(&way.shape, &self.nodes);
        excluded.extend_from_slice(kept);
        let wish = Wish {
            shape: &way.shape,
            strategy: asker.gang.strategy,
            excluded: &excluded,
        };
        let search = self.search(asker, wish, &candidates);
        let mut found: Vec<FixedBitSet> = Vec::new();
        match search.domains(&self.nodes) {
            None => found.extend(self.cheapest(&search, &search.ground, wake)),
            Some(domains) => {
                for ground in &domains {
                    found.extend(self.cheapest(&search, ground, wake));
                }
                if found.is_empty() {
                    wake_for_any(way, wake);
                }
            }
        }
        // Stable: of equal ones the first.
        found.sort_by_cached_key(|out| search.cost(out));
        for out in found {
            // Nobody more needs to leave: it waits for those who do already.
            if out.is_clear() {
                return None;
            }
            if let Some(groups) = self.place_without(&search, &out) {
                let victims = out.ones().filter_map(|n| candidates.list.get(n));
                return Some(Plan {
                    way: way.clone(),
                    groups,
                    victims: victims.map(leaver).collect(),
                });
            }
        }
        None
    }

    /// Who may be asked hangs on what others borrow, and on whether the asker would.
    fn watch_claims(&self, asker: &Asker<'_>, wake: &mut Wake) {
        let Preemption {
            reclaim,
            borrow_within,
            ..
        } = asker.preemption;
        let claims = reclaim != Reclaim::Never || borrow_within != BorrowWithin::Never;
        if !claims && !self.queues.has_surplus() {
            return;
        }
        let root = self.queues.root(&asker.gang.queue);
        let tree = self.queues.tree();
        for (what, needs) in asker.demand.iter() {
            let Some(quota) = tree.guaranteed(asker.queue, what) else {
                continue;
            };
            wake.on(Signal::Borrows(Some(root.clone()), what), 1);
            wake.on(Signal::Borrows(None, what), 1);
            let beyond = tree.used(asker.queue, what).saturating_add(needs);
            if beyond > quota {
                let beyond = beyond.saturating_sub(quota);
                wake.on(Signal::QuotaFreed(root.clone(), what), beyond);
            }
        }
    }

    /// Who leaves that room is made on these nodes, as cheaply as is known.
    fn cheapest(
        &mut self,
        search: &Search<'_>,
        ground: &Ground,
        wake: &mut Wake,
    ) -> Option<FixedBitSet> {
        let in_order: Vec<usize> = (0..search.parts.len()).collect();
        let found = self.fewest(search, ground, &in_order, wake);
        if !ground.counted || found.as_ref().is_some_and(|out| search.is_cheapest(out)) {
            return found;
        }
        // One by one the cheapest may sit apart: node by node may cost less.
        let by_node = search.by_node(ground, &self.nodes);
        let other = self.fewest(search, ground, &by_node, wake);
        let both = [found, other].into_iter().flatten();
        both.min_by_key(|out| search.cost(out))
    }

    /// Who leaves when all are asked in an order until the gang fits, and those
    /// who are not needed stay. None: it never fits.
    fn fewest<'a>(
        &mut self,
        search: &Search<'a>,
        ground: &'a Ground,
        order: &[usize],
        wake: &mut Wake,
    ) -> Option<FixedBitSet> {
        let mut trial = Trial {
            out: FixedBitSet::with_capacity(search.parts.len()),
            rooms: ground.rooms.clone(),
            budget: Budget::new(&self.queues, search.asker.queue, search.asker.demand),
            ground,
        };
        trial.looks_for_room();
        let fits = self.ask_in_order(search, &mut trial, order);
        if fits {
            self.keep_dearest(search, &mut trial);
        } else {
            self.wake_for(search, &trial, wake);
        }
        trial.budget.end(&mut self.queues);
        fits.then_some(trial.out)
    }

    /// Asks one after the other until the gang fits. False: it never does.
    fn ask_in_order<'a>(
        &mut self,
        search: &Search<'a>,
        trial: &mut Trial<'a>,
        order: &[usize],
    ) -> bool {
        // Where counting does not tell, a place is sought after each doubling only.
        let (mut left, mut patience) = (0_usize, 0_usize);
        let mut order: Vec<usize> = order.to_vec();
        loop {
            if self.ask_each(search, trial, &order, (&mut left, &mut patience)) {
                return true;
            }
            // What there is too little of may be something else by now.
            let more = match trial.is_promising() {
                // Counting does not tell: it may be anything.
                true => !trial.ground.counted && trial.looks_for_all(search),
                false => trial.looks_for_room(),
            };
            if !more {
                return false;
            }
            order.retain(|number| !trial.out.contains(*number));
        }
    }

    /// One round of that.
    fn ask_each<'a>(
        &mut self,
        search: &Search<'a>,
        trial: &mut Trial<'a>,
        order: &[usize],
        (left, patience): (&mut usize, &mut usize),
    ) -> bool {
        let counted = trial.ground.counted;
        for number in order {
            if *left >= *patience && trial.is_promising() {
                if counted || self.place_without(search, &trial.out).is_some() {
                    return true;
                }
                *patience = left.saturating_mul(2).saturating_add(1);
            }
            let Some((candidate, charge)) = search.candidate(*number) else {
                continue;
            };
            if !self.is_still_asked(&search.asker, &mut trial.budget, (candidate, charge)) {
                continue;
            }
            let room = trial.leaves(search, *number);
            let of_use = room || !trial.budget.does();
            if !of_use {
                trial.returns(search, *number);
            } else {
                let queue = candidate.queue;
                trial.budget.leaves(&mut self.queues, queue, charge);
                if !candidate.preemptible() {
                    trial.budget.keeps_less(queue, charge, 1);
                }
                if candidate.is_surplus() {
                    trial.budget.has_less_surplus(queue, charge, 1);
                }
                trial.out.insert(*number);
                *left = left.saturating_add(1);
            }
        }
        trial.is_promising() && (counted || self.place_without(search, &trial.out).is_some())
    }

    /// Keeps everyone who is not needed: the dearest first.
    fn keep_dearest<'a>(&mut self, search: &Search<'a>, trial: &mut Trial<'a>) {
        let mut tries = 0_usize;
        let dearest_first: Vec<usize> = trial.out.ones().rev().collect();
        for number in dearest_first {
            let Some((candidate, charge)) = search.candidate(number) else {
                continue;
            };
            trial.out.set(number, false);
            if self.does_without(search, trial, number, &mut tries) {
                let queue = candidate.queue;
                if trial.budget.returns(&mut self.queues, queue, charge) {
                    if !candidate.preemptible() {
                        trial.budget.keeps_less(queue, charge, -1);
                    }
                    if candidate.is_surplus() {
                        trial.budget.has_less_surplus(queue, charge, -1);
                    }
                    continue;
                }
                trial.leaves(search, number);
            }
            trial.out.insert(number);
        }
    }

    /// Whether there is room still when one comes back. Where not, it is as before.
    fn does_without(
        &mut self,
        search: &Search<'_>,
        trial: &mut Trial<'_>,
        number: usize,
        tries: &mut usize,
    ) -> bool {
        if !trial.may_bear(search, number) {
            return false;
        }
        trial.returns(search, number);
        let mut fits = trial.rooms.enough();
        if fits && !trial.ground.counted {
            *tries = tries.saturating_add(1);
            fits = *tries <= TRIES && self.place_without(search, &trial.out).is_some();
        }
        if !fits {
            trial.leaves(search, number);
        }
        fits
    }

    /// The place that the gang has when these have left.
    fn place_without(&mut self, search: &Search<'_>, out: &FixedBitSet) -> Option<Vec<Runs>> {
        let leaving = search.leaving(out);
        let all = search.going.iter().chain(&leaving);
        if let Some(groups) = self.place_on_seats_without(search.asker.gang, &search.wish, all) {
            return Some(groups);
        }
        place_without(
            &mut self.nodes,
            &mut self.packing,
            &self.catalog,
            &search.wish,
            search.going.iter().chain(&leaving),
        )
    }

    /// Nobody can make room now. When may that be otherwise?
    fn wake_for(&self, search: &Search<'_>, trial: &Trial<'_>, wake: &mut Wake) {
        for (what, least) in trial.budget.lacking() {
            let root = self.queues.root(&search.asker.gang.queue);
            wake.on_least(Signal::QuotaFreed(root.clone(), what), least);
        }
        for (resource, amount) in trial.rooms.lacking() {
            wake.on_least(Signal::Freed(resource), amount);
        }
        if trial.is_promising() {
            // Counting is not what it fails by: whatever becomes free may be what is
            // missing.
            for (resource, _) in &search.wish.shape.total {
                wake.on_least(Signal::Freed(*resource), 1);
            }
        }
    }
}

/// There is no domain that could hold it: whatever becomes free may make one.
fn wake_for_any(way: &Way, wake: &mut Wake) {
    for (resource, _) in &way.shape.total {
        wake.on_least(Signal::Freed(*resource), 1);
    }
}

impl Trial<'_> {
    /// Whether quota allows it and nothing that can be counted speaks against it.
    fn is_promising(&self) -> bool {
        self.budget.does() && self.rooms.enough()
    }

    /// Whom others are asked for follows what there is too little room of. Says
    /// whether that is more than before.
    fn looks_for_room(&mut self) -> bool {
        let lacking = self.rooms.lacking().into_iter();
        self.budget
            .lacks_room(lacking.map(|(resource, _)| resource))
    }

    /// The same for all that the gang needs.
    fn looks_for_all(&mut self, search: &Search<'_>) -> bool {
        let all = search.wish.shape.total.iter();
        self.budget.lacks_room(all.map(|(resource, _)| *resource))
    }

    /// A candidate leaves its nodes. Says whether any of them is of use.
    fn leaves(&mut self, search: &Search<'_>, number: usize) -> bool {
        let mut of_use = false;
        for held in search.held_by(number) {
            let left = self.rooms.leave(held.node, search.freed(held), held.pods);
            of_use |= left && self.ground.of_use.contains(held.node.at());
        }
        of_use
    }

    /// A candidate comes back.
    fn returns(&mut self, search: &Search<'_>, number: usize) {
        for held in search.held_by(number) {
            self.rooms
                .come_back(held.node, search.freed(held), held.pods);
        }
    }

    /// False where there is no room without it, as each of its nodes alone tells.
    fn may_bear(&self, search: &Search<'_>, number: usize) -> bool {
        let mut held = search.held_by(number).iter();
        held.all(|held| self.rooms.bears(held.node, search.freed(held), held.pods))
    }
}

fn leaver(candidate: &Candidate) -> Leaver {
    Leaver {
        gang: candidate.gang,
        because: candidate.because,
        lost_device_seconds: candidate.lost_device_seconds,
    }
}
