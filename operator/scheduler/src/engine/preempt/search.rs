//! Whom it takes: the fewest of the cheapest that make a gang fit.

use fixedbitset::FixedBitSet;

use super::super::Engine;
use super::super::ways::Way;
use super::candidates::{Asker, Candidate};
use super::field::Search;
use super::{Leaver, Plan};
use crate::gang::Gang;
use crate::placement::{Rooms, Runs, Wish, excluded, place_without};
use crate::preemption::{Budget, policy};
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
}

impl Engine {
    /// Who could make room for a gang in one of its ways, and the place it would
    /// then have. Everything is as before. Where nobody can, `wake` learns when that
    /// may have changed.
    ///
    /// Nobody is evicted on nodes that are `kept` for others.
    ///
    /// Gangs are asked in order until there is room: so no more priority, and among
    /// equals no more work, is given up than must be. Those that turn out not to be
    /// needed are kept, the dearest first. In quota it is exact; in room too for a
    /// gang of one group, else as [`crate::placement::place`] finds places.
    pub(in crate::engine) fn make_room(
        &mut self,
        (gang, preempted): (&Gang, bool),
        (way, kept): (&Way, &[NodeIdx]),
        wake: &mut Wake,
    ) -> Option<Plan> {
        let preemption = self.queues.preemption(&gang.queue)?;
        let queue = self.queues.leaf(&gang.queue)?;
        if !policy::allows_any(&preemption) {
            return None;
        }
        // Who was preempted and borrows waits for what becomes free: else the one
        // who took its place would be next.
        if preempted && self.queues.tree().borrows(queue, &way.demand) {
            return None;
        }
        let asker = Asker {
            gang,
            queue,
            demand: &way.demand,
            preemption,
        };
        let mut budget = Budget::new(&self.queues, queue, &way.demand);
        let candidates = self.candidates(&asker, &mut budget);
        budget.end(&mut self.queues);
        if let Some(next) = candidates.next {
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
            strategy: gang.strategy,
            excluded: &excluded,
        };
        let search = self.search(asker, wish, &candidates);
        let in_order: Vec<usize> = (0..candidates.list.len()).collect();
        let mut found = self.fewest(&search, &in_order, wake)?;
        if search.counted && !search.is_cheapest(&found) {
            // One by one the cheapest may sit apart: node by node may cost less.
            let by_node = search.by_node(&self.nodes);
            let other = self.fewest(&search, &by_node, wake);
            found = [Some(found), other]
                .into_iter()
                .flatten()
                .min_by_key(|out| search.cost(out))?;
        }
        // Nobody more needs to leave: it waits for those who do already.
        if found.is_clear() {
            return None;
        }
        let groups = self.place_without(&search, &found)?;
        let victims = found.ones().filter_map(|n| candidates.list.get(n));
        Some(Plan {
            way: way.clone(),
            groups,
            victims: victims.map(leaver).collect(),
        })
    }

    /// Who leaves when all are asked in an order until the gang fits, and those
    /// who are not needed stay. None: it never fits.
    fn fewest(
        &mut self,
        search: &Search<'_>,
        order: &[usize],
        wake: &mut Wake,
    ) -> Option<FixedBitSet> {
        let mut trial = Trial {
            out: FixedBitSet::with_capacity(search.parts.len()),
            rooms: search.rooms.clone(),
            budget: Budget::new(&self.queues, search.asker.queue, search.asker.demand),
        };
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
        for number in order {
            if left >= patience && trial.is_promising() {
                if search.counted || self.place_without(search, &trial.out).is_some() {
                    return true;
                }
                patience = left.saturating_mul(2).saturating_add(1);
            }
            let Some((candidate, charge)) = search.candidate(*number) else {
                continue;
            };
            if !self.is_still_asked(&search.asker, &mut trial.budget, (candidate, charge)) {
                continue;
            }
            let room = trial.leaves(search, *number);
            if room || !trial.budget.does() {
                let queue = candidate.queue;
                trial.budget.leaves(&mut self.queues, queue, charge);
                trial.out.insert(*number);
                left = left.saturating_add(1);
            }
        }
        trial.is_promising() && (search.counted || self.place_without(search, &trial.out).is_some())
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
        if fits && !search.counted {
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
            wake.on(Signal::QuotaFreed(root.clone(), what), least);
        }
        for (resource, amount) in trial.rooms.lacking() {
            wake.on(Signal::Freed(resource), amount);
        }
        if trial.is_promising() {
            // Counting is not what it fails by: whatever becomes free may be what is
            // missing.
            for (resource, _) in &search.wish.shape.total {
                wake.on(Signal::Freed(*resource), 1);
            }
        }
    }
}

impl Trial<'_> {
    /// Whether quota allows it and nothing that can be counted speaks against it.
    fn is_promising(&self) -> bool {
        self.budget.does() && self.rooms.enough()
    }

    /// A candidate leaves its nodes. Says whether any of them is of use.
    fn leaves(&mut self, search: &Search<'_>, number: usize) -> bool {
        let mut of_use = false;
        for held in search.held_by(number) {
            of_use |= self.rooms.leave(held.node, search.freed(held), held.pods);
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
