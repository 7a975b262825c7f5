//! Whom it takes: the fewest of the cheapest that make a gang fit.

use std::ops::Range;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::super::Engine;
use super::super::ways::Way;
use super::candidates::{Asker, Candidate, Candidates};
use super::{Leaver, Plan};
use crate::gang::Gang;
use crate::placement::{Freed, Hold, Rooms, Runs, Wish};
use crate::placement::{asks_for_topology, excluded, place_without};
use crate::preemption::{Budget, policy};
use crate::queueing::{Signal, Wake};
use crate::quota::Demand;
use crate::state::{DemandIdx, NodeIdx, ResourceIdx};

/// Placements that are tried at most to do without single victims, where counting
/// alone does not tell; past it victims may be left that are not needed.
const TRIES: usize = 512;

/// One search.
pub(super) struct Search<'a> {
    asker: Asker<'a>,
    wish: Wish<'a>,
    pub(super) candidates: &'a Candidates,
    /// What each candidate holds, in the order of the candidates.
    held: Vec<Held>,
    parts: Vec<Range<usize>>,
    kinds: Vec<Kind>,
    /// What goes anyway.
    going: Vec<Hold>,
    /// With that gone.
    pub(super) rooms: Rooms,
    /// Counting tells all: the gang fits if there is room for so many pods.
    counted: bool,
    /// Pods have shares of devices: it depends on the order in which they go what
    /// becomes free.
    shared: bool,
}

/// What so many pods of a kind hold of a node.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) node: NodeIdx,
    kind: usize,
    pub(super) pods: u32,
}

/// Pods that hold the same.
struct Kind {
    demand: Arc<Vec<(ResourceIdx, i64)>>,
    freed: Freed,
}

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
        let candidates = self.candidates(&asker, &mut budget);
        budget.end(&mut self.queues);
        if let Some(next) = candidates.next {
            wake.at(next);
        }
        if candidates.list.is_empty() {
            return None;
        }
        let wish = Wish {
            shape: &way.shape,
            strategy: gang.strategy,
            excluded: &excluded(&way.shape, &self.nodes),
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

    fn search<'a>(
        &mut self,
        asker: Asker<'a>,
        wish: Wish<'a>,
        candidates: &'a Candidates,
    ) -> Search<'a> {
        self.packing.prepare(&mut self.nodes, &mut self.catalog);
        self.catalog.refresh(wish.shape, &self.nodes);
        let mut rooms = Rooms::new(&self.nodes, &self.catalog, &wish);
        let going = self.going();
        for hold in &going {
            rooms.free(&self.nodes, hold);
        }
        let all = candidates.list.len();
        let (mut held, mut parts) = (Vec::with_capacity(all), Vec::with_capacity(all));
        let mut kinds: Vec<Kind> = Vec::new();
        let mut numbers: FxHashMap<DemandIdx, usize> = FxHashMap::default();
        for candidate in &candidates.list {
            let from = held.len();
            held.extend(candidates.parts(candidate).iter().map(|part| Held {
                node: part.node,
                kind: *numbers.entry(part.demand).or_insert_with(|| {
                    let demand = self.catalog.demand(part.demand);
                    let freed = rooms.freed(&self.nodes, &demand);
                    kinds.push(Kind { demand, freed });
                    kinds.len().saturating_sub(1)
                }),
                pods: part.pods,
            }));
            parts.push(from..held.len());
        }
        let groups = wish.shape.groups.iter().filter(|g| g.count > 0).count();
        let shared = !self.catalog.shares().is_empty();
        Search {
            counted: groups < 2 && !shared && !asks_for_topology(wish.shape),
            shared,
            asker,
            wish,
            candidates,
            held,
            parts,
            kinds,
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

impl<'a> Search<'a> {
    /// A candidate, and what it is charged.
    fn candidate(&self, number: usize) -> Option<(&'a Candidate, &'a Demand)> {
        let candidate = self.candidates.list.get(number)?;
        Some((candidate, self.candidates.charge(candidate)))
    }

    /// What a candidate holds.
    pub(super) fn held_by(&self, number: usize) -> &[Held] {
        let part = self.parts.get(number).cloned();
        part.and_then(|part| self.held.get(part)).unwrap_or(&[])
    }

    /// What they all hold, in their order.
    pub(super) fn held(&self) -> &[Held] {
        &self.held
    }

    /// What a pod of a kind frees.
    pub(super) fn freed(&self, held: &Held) -> &[i64] {
        self.kinds.get(held.kind).map_or(&[], |kind| &kind.freed)
    }

    /// What these hold together.
    fn leaving(&self, out: &FixedBitSet) -> Vec<Hold> {
        let held = out.ones().flat_map(|number| self.held_by(number));
        let mut held: Vec<Held> = held.copied().collect();
        if !self.shared {
            // Pods of a kind leave their node together.
            held.sort_by_key(|held| (held.node, held.kind));
            held.dedup_by(|next, kept| {
                let same = (next.node, next.kind) == (kept.node, kept.kind);
                if same {
                    kept.pods = kept.pods.saturating_add(next.pods);
                }
                same
            });
        }
        let hold = |held: Held| {
            Some(Hold {
                node: held.node,
                demand: Arc::clone(&self.kinds.get(held.kind)?.demand),
                pods: held.pods,
                held: true,
            })
        };
        held.into_iter().filter_map(hold).collect()
    }

    /// Whether it is clear that nobody else could make room for less: as few as could
    /// do are the cheapest of all candidates, and of one priority. For a gang of one
    /// group.
    fn is_cheapest(&self, out: &FixedBitSet) -> bool {
        let few = out.count_ones(..);
        let list = self.candidates.list.get(..few).unwrap_or(&[]);
        let (Some(first), Some(last)) = (list.first(), list.last()) else {
            return false;
        };
        if first.priority() != last.priority() || out.maximum() != few.checked_sub(1) {
            return false;
        }
        let missing = self.rooms.missing();
        let missing = (0_usize..).zip(missing).filter(|(_, missing)| *missing > 0);
        let at_least = missing.map(|(column, missing)| {
            // What one of them frees at most.
            let all = (0..self.parts.len()).map(|number| self.frees(number, column));
            let most = i128::from(all.max().unwrap_or(0));
            let whole = missing.checked_div(most).unwrap_or(0);
            let rest = missing.checked_rem(most).unwrap_or(0);
            whole.saturating_add(i128::from(rest > 0))
        });
        let at_least = at_least.max().and_then(|n| usize::try_from(n).ok());
        at_least.is_some_and(|n| few <= n)
    }

    /// How much of what a column counts a candidate frees at most.
    fn frees(&self, number: usize, column: usize) -> i64 {
        let all = self.held_by(number).iter().map(|held| {
            let freed = self.freed(held).get(column).map_or(0, |freed| *freed);
            freed.saturating_mul(i64::from(held.pods))
        });
        all.fold(0, i64::saturating_add)
    }

    /// What is lost with these, the highest priority first; then how many they are.
    fn cost(&self, out: &FixedBitSet) -> (Vec<(i32, u64)>, usize) {
        let mut lost: Vec<(i32, u64)> = Vec::new();
        let victims = out.ones().filter_map(|n| self.candidates.list.get(n));
        // They come by priority, the lowest first.
        for candidate in victims {
            let more = candidate.lost_device_seconds;
            match lost.last_mut() {
                Some((priority, sum)) if *priority == candidate.priority() => {
                    *sum = sum.saturating_add(more);
                }
                _ => lost.push((candidate.priority(), more)),
            }
        }
        lost.reverse();
        (lost, out.count_ones(..))
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
