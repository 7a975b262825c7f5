//! Whom it takes: the fewest of the cheapest that make a gang fit.

use std::collections::BTreeMap;
use std::ops::Range;

use fixedbitset::FixedBitSet;

use super::super::Engine;
use super::super::ways::Way;
use super::candidates::{Asker, Candidate};
use super::{Leaver, Plan};
use crate::gang::Gang;
use crate::placement::{Hold, Rooms, Runs, Wish, asks_for_topology, excluded, place_without};
use crate::preemption::{Budget, policy};
use crate::queueing::{Signal, Wake};
use crate::state::{NodeIdx, Nodes};

/// Placements that are tried at most to do without single victims, where counting
/// alone does not tell; past it victims may be left that are not needed.
const TRIES: usize = 512;

/// One search.
struct Search<'a> {
    asker: Asker<'a>,
    wish: Wish<'a>,
    candidates: &'a [Candidate],
    /// What all candidates hold, and which part of it is each one's.
    held: Vec<Hold>,
    parts: Vec<Range<usize>>,
    /// What goes anyway.
    going: Vec<Hold>,
    /// With that gone.
    rooms: Rooms,
    /// Counting tells all: the gang fits if there is room for so many pods.
    counted: bool,
}

/// Who is out, and what there is room for then.
struct Trial {
    out: FixedBitSet,
    rooms: Rooms,
    budget: Budget,
}

impl Engine {
    /// Who could make room for a gang in one of its ways, and the place it would
    /// then have. Everything is as before. Where nobody can, `wake` learns when that
    /// may have changed.
    ///
    /// Gangs are asked in order until there is room: so no more priority, and among
    /// equals no more work, is given up than must be. Those that turn out not to be
    /// needed are kept, the dearest first. In quota it is exact; in room too for a
    /// gang of one group, else as [`crate::placement::place`] finds places.
    pub(in crate::engine) fn make_room(
        &mut self,
        gang: &Gang,
        preempted: bool,
        way: &Way,
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
        let (candidates, next) = self.candidates(&asker, &mut budget);
        budget.end(&mut self.queues);
        if let Some(next) = next {
            wake.at(next);
        }
        if candidates.is_empty() {
            return None;
        }
        let wish = Wish {
            shape: &way.shape,
            strategy: gang.strategy,
            excluded: &excluded(&way.shape, &self.nodes),
        };
        let search = self.search(asker, wish, &candidates);
        let in_order: Vec<usize> = (0..candidates.len()).collect();
        let mut found = self.fewest(&search, &in_order, wake)?;
        if search.counted {
            // One by one the cheapest may sit apart: node by node may cost less.
            let by_node = self.by_node(&search);
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
        let victims = found.ones().filter_map(|number| candidates.get(number));
        Some(Plan {
            way: way.clone(),
            groups,
            victims: victims.map(leaver).collect(),
        })
    }

    fn search<'a>(
        &mut self,
        asker: Asker<'a>,
        wish: Wish<'a>,
        candidates: &'a [Candidate],
    ) -> Search<'a> {
        self.packing.prepare(&mut self.nodes, &mut self.catalog);
        self.catalog.refresh(wish.shape, &self.nodes);
        let mut rooms = Rooms::new(&self.nodes, &self.catalog, &wish);
        let going = self.going();
        for hold in &going {
            rooms.free(&self.nodes, hold);
        }
        let (mut held, mut parts) = (Vec::new(), Vec::with_capacity(candidates.len()));
        for candidate in candidates {
            let from = held.len();
            self.held(candidate.gang, &mut held);
            parts.push(from..held.len());
        }
        let groups = wish.shape.groups.iter().filter(|g| g.count > 0).count();
        let shared = !self.catalog.shares().is_empty();
        Search {
            counted: groups < 2 && !shared && !asks_for_topology(wish.shape),
            asker,
            wish,
            candidates,
            held,
            parts,
            going,
            rooms,
        }
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
            out: FixedBitSet::with_capacity(search.candidates.len()),
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
    fn ask_in_order(&mut self, search: &Search<'_>, trial: &mut Trial, order: &[usize]) -> bool {
        // Where counting does not tell, a place is sought after each doubling only.
        let (mut left, mut patience) = (0_usize, 0_usize);
        for number in order {
            if left >= patience && trial.is_promising() {
                if search.counted || self.place_without(search, &trial.out).is_some() {
                    return true;
                }
                patience = left.saturating_mul(2).saturating_add(1);
            }
            let Some(candidate) = search.candidates.get(*number) else {
                continue;
            };
            if !self.is_still_asked(&search.asker, &mut trial.budget, candidate) {
                continue;
            }
            let mut of_use = !trial.budget.does();
            for hold in search.held_by(*number) {
                of_use |= trial.rooms.free(&self.nodes, hold);
            }
            if of_use {
                let (queue, demand) = (candidate.queue, &candidate.demand);
                trial.budget.leaves(&mut self.queues, queue, demand);
                trial.out.insert(*number);
                left = left.saturating_add(1);
            }
        }
        trial.is_promising() && (search.counted || self.place_without(search, &trial.out).is_some())
    }

    /// Keeps everyone who is not needed: the dearest first.
    fn keep_dearest(&mut self, search: &Search<'_>, trial: &mut Trial) {
        let mut tries = 0_usize;
        let dearest_first: Vec<usize> = trial.out.ones().rev().collect();
        for number in dearest_first {
            let Some(candidate) = search.candidates.get(number) else {
                continue;
            };
            trial.out.set(number, false);
            if self.does_without(search, trial, number, &mut tries) {
                let (queue, demand) = (candidate.queue, &candidate.demand);
                if trial.budget.returns(&mut self.queues, queue, demand) {
                    continue;
                }
                trial.leaves(&self.nodes, search, number);
            }
            trial.out.insert(number);
        }
    }

    /// Whether there is room still when one comes back. Where not, it is as before.
    fn does_without(
        &mut self,
        search: &Search<'_>,
        trial: &mut Trial,
        number: usize,
        tries: &mut usize,
    ) -> bool {
        trial.returns(&self.nodes, search, number);
        let mut fits = trial.rooms.enough();
        if fits && !search.counted {
            *tries = tries.saturating_add(1);
            fits = *tries <= TRIES && self.place_without(search, &trial.out).is_some();
        }
        if !fits {
            trial.leaves(&self.nodes, search, number);
        }
        fits
    }

    /// The candidates, those first that make room for a pod on one node most cheaply.
    fn by_node(&self, search: &Search<'_>) -> Vec<usize> {
        let mut on: BTreeMap<NodeIdx, Vec<(usize, &Hold)>> = BTreeMap::new();
        for number in 0..search.candidates.len() {
            for hold in search.held_by(number) {
                on.entry(hold.node).or_default().push((number, hold));
            }
        }
        let mut steps: Vec<(i32, u64, u32, Vec<usize>)> = Vec::new();
        for (node, here) in on {
            let leaving = here.iter().map(|(_, hold)| *hold);
            let gains = search.rooms.gains(&self.nodes, node, leaving);
            let (mut step, mut cost, mut had) = (Vec::new(), 0_u64, 0_u32);
            // A later step is of use after the earlier ones alone.
            let mut at_least = (i32::MIN, 0_u64);
            for ((number, _), gain) in here.iter().zip(gains) {
                let Some(candidate) = search.candidates.get(*number) else {
                    continue;
                };
                step.push(*number);
                cost = cost.saturating_add(candidate.lost_device_seconds);
                at_least.0 = at_least.0.max(candidate.priority);
                if gain > had {
                    let pods = u64::from(gain.saturating_sub(had));
                    let each = cost.checked_div(pods).unwrap_or(cost);
                    at_least.1 = at_least.1.max(each);
                    let rank = self.nodes.rank_of(node);
                    steps.push((at_least.0, at_least.1, rank, std::mem::take(&mut step)));
                    (cost, had) = (0, gain);
                }
            }
        }
        // Stable: of one node the earlier step comes first.
        steps.sort_by_key(|(priority, cost, rank, _)| (*priority, *cost, *rank));
        let first = steps.into_iter().flat_map(|(.., step)| step);
        let mut seen = FixedBitSet::with_capacity(search.candidates.len());
        first
            .chain(0..search.candidates.len())
            .filter(|number| !seen.put(*number))
            .collect()
    }

    /// The place that the gang has when these have left.
    fn place_without(&mut self, search: &Search<'_>, out: &FixedBitSet) -> Option<Vec<Runs>> {
        let held = out.ones().flat_map(|number| search.held_by(number));
        place_without(
            &mut self.nodes,
            &mut self.packing,
            &self.catalog,
            &search.wish,
            search.going.iter().chain(held),
        )
    }

    /// Nobody can make room now. When may that be otherwise?
    fn wake_for(&self, search: &Search<'_>, trial: &Trial, wake: &mut Wake) {
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

impl Search<'_> {
    /// What a candidate holds.
    fn held_by(&self, number: usize) -> impl Iterator<Item = &Hold> {
        let part = self.parts.get(number).cloned();
        let held = part.and_then(|part| self.held.get(part));
        held.unwrap_or(&[]).iter()
    }

    /// What is lost with these, the highest priority first; then how many they are.
    fn cost(&self, out: &FixedBitSet) -> (Vec<(i32, u64)>, usize) {
        let mut lost: BTreeMap<i32, u64> = BTreeMap::new();
        for candidate in out.ones().filter_map(|number| self.candidates.get(number)) {
            let sum = lost.entry(candidate.priority).or_default();
            *sum = sum.saturating_add(candidate.lost_device_seconds);
        }
        (lost.into_iter().rev().collect(), out.count_ones(..))
    }
}

impl Trial {
    /// Whether quota allows it and nothing that can be counted speaks against it.
    fn is_promising(&self) -> bool {
        self.budget.does() && self.rooms.enough()
    }

    /// A candidate leaves its nodes.
    fn leaves(&mut self, nodes: &Nodes, search: &Search<'_>, number: usize) {
        for hold in search.held_by(number) {
            self.rooms.free(nodes, hold);
        }
    }

    /// A candidate comes back.
    fn returns(&mut self, nodes: &Nodes, search: &Search<'_>, number: usize) {
        for hold in search.held_by(number) {
            self.rooms.take(nodes, hold);
        }
    }
}

fn leaver(candidate: &Candidate) -> Leaver {
    Leaver {
        gang: candidate.gang,
        because: candidate.because,
        lost_device_seconds: candidate.lost_device_seconds,
    }
}
