//! Whom it takes: the fewest of the cheapest that make a gang fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::Engine;
use super::super::ways::Way;
use super::candidates::{Asker, Candidate, Held};
use super::{Leaver, Plan};
use crate::gang::Gang;
use crate::placement::{Runs, UndoLog};
use crate::preemption::{Rooms, policy};
use crate::queueing::{Signal, Wake};
use crate::state::{GangIdx, NodeIdx};

/// Placements that are tried at most to do without single victims, where counting
/// alone does not tell; past it victims may be left that are not needed.
const TRIES: usize = 512;

/// One search.
struct Search<'a> {
    asker: Asker<'a>,
    way: &'a Way,
    candidates: &'a [Candidate],
    held: Vec<Vec<Held>>,
    /// What goes anyway.
    going: Vec<Held>,
    /// Who leaves, by number.
    out: BTreeSet<usize>,
    rooms: Option<Rooms>,
    /// Counting tells all: the gang fits if there is room for so many pods.
    counted: bool,
    quota: bool,
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
        let (candidates, next) = self.candidates(&asker);
        if let Some(next) = next {
            wake.at(next);
        }
        if candidates.is_empty() {
            return None;
        }
        self.packing.prepare(&mut self.nodes, &mut self.catalog);
        self.catalog.refresh(&way.shape, &self.nodes);
        let excluded = self.excluded(&way.shape);
        let mut rooms = Rooms::new(&self.nodes, &self.catalog, &way.shape, &excluded);
        let going = self.going();
        if let Some(rooms) = &mut rooms {
            for held in &going {
                rooms.free(held.node, &held.demand, i64::from(held.pods));
            }
        }
        let groups = way.shape.groups.iter().filter(|g| g.count > 0).count();
        let close = gang.topology.is_some() || gang.groups.iter().any(|g| g.topology.is_some());
        let mut search = Search {
            asker,
            way,
            candidates: &candidates,
            held: candidates.iter().map(|c| self.held(c.gang)).collect(),
            going,
            out: BTreeSet::new(),
            counted: rooms.is_some() && groups < 2 && !close,
            rooms,
            quota: false,
        };
        let in_order: Vec<usize> = (0..candidates.len()).collect();
        let mut found = self.fewest(&mut search, &in_order);
        if found.is_none() {
            self.wake_for(&search, wake);
        }
        self.all_back(&mut search);
        if found.is_some() && search.counted {
            // One by one the cheapest may sit apart: node by node may cost less.
            let by_node = self.by_node(&search);
            let other = self.fewest(&mut search, &by_node);
            self.all_back(&mut search);
            found = [found, other]
                .into_iter()
                .flatten()
                .min_by_key(|out| search.cost(out));
        }
        // Nobody more needs to leave: it waits for those who do already.
        search.out = found.filter(|out| !out.is_empty())?;
        let groups = self.place_without(&search)?;
        let victims = search
            .out
            .iter()
            .filter_map(|number| candidates.get(*number));
        Some(Plan {
            way: way.clone(),
            groups,
            victims: victims.map(leaver).collect(),
        })
    }

    /// Who leaves when all are asked in an order until the gang fits, and those
    /// who are not needed stay. None: it never fits.
    fn fewest(&mut self, search: &mut Search<'_>, order: &[usize]) -> Option<BTreeSet<usize>> {
        if !self.ask_in_order(search, order) {
            return None;
        }
        self.keep_dearest(search);
        Some(search.out.clone())
    }

    /// Everyone is where they were.
    fn all_back(&mut self, search: &mut Search<'_>) {
        for number in search.out.clone() {
            self.keep(search, number);
        }
        search.quota = false;
    }

    /// The candidates, those first that make room for a pod on one node most cheaply.
    fn by_node(&self, search: &Search<'_>) -> Vec<usize> {
        let mut on: BTreeMap<NodeIdx, Vec<(usize, &Held)>> = BTreeMap::new();
        for (number, held) in search.held.iter().enumerate() {
            for held in held {
                on.entry(held.node).or_default().push((number, held));
            }
        }
        let mut steps: Vec<(i32, u64, u32, Vec<usize>)> = Vec::new();
        for (node, here) in on {
            let Some(rooms) = &search.rooms else { continue };
            let leaving = here
                .iter()
                .map(|(_, held)| (held.demand.as_slice(), held.pods));
            let gains = rooms.gains(node, leaving);
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
        let mut seen = BTreeSet::new();
        first
            .chain(0..search.candidates.len())
            .filter(|number| seen.insert(*number))
            .collect()
    }

    /// Asks one after the other until the gang fits. False: it never does.
    fn ask_in_order(&mut self, search: &mut Search<'_>, order: &[usize]) -> bool {
        // Where counting does not tell, a place is sought after each doubling only.
        let mut patience = 0_usize;
        for number in order {
            if search.out.len() >= patience && search.promising(&self.queues) {
                if search.counted || self.place_without(search).is_some() {
                    return true;
                }
                patience = search.out.len().saturating_mul(2).saturating_add(1);
            }
            let candidate = search.candidates.get(*number);
            if candidate.is_some_and(|c| self.is_still_asked(&search.asker, c)) {
                self.send(search, *number);
            }
        }
        self.fits(search)
    }

    /// Keeps everyone who is not needed: the dearest first.
    fn keep_dearest(&mut self, search: &mut Search<'_>) {
        let mut tries = 0_usize;
        for number in search.out.clone().into_iter().rev() {
            if !search.counted {
                tries = tries.saturating_add(1);
                if tries > TRIES {
                    return;
                }
            }
            self.keep(search, number);
            search.quota = false;
            if !self.fits(search) {
                self.send(search, number);
            }
        }
    }

    /// Whether the gang fits, with everyone out who is.
    fn fits(&mut self, search: &mut Search<'_>) -> bool {
        search.promising(&self.queues) && (search.counted || self.place_without(search).is_some())
    }

    /// A candidate leaves, if that is of any use.
    fn send(&mut self, search: &mut Search<'_>, number: usize) {
        let Some(candidate) = search.candidates.get(number) else {
            return;
        };
        let mut of_use = !search.quota || search.rooms.is_none();
        if let Some(rooms) = &mut search.rooms {
            for held in search.held.get(number).into_iter().flatten() {
                of_use |= rooms.free(held.node, &held.demand, i64::from(held.pods));
            }
        }
        if of_use {
            self.queues.lift(candidate.queue, &candidate.demand);
            search.out.insert(number);
        }
    }

    /// It stays after all.
    fn keep(&mut self, search: &mut Search<'_>, number: usize) {
        let Some(candidate) = search.candidates.get(number) else {
            return;
        };
        if let Some(rooms) = &mut search.rooms {
            for held in search.held.get(number).into_iter().flatten() {
                let pods = i64::from(held.pods).saturating_neg();
                rooms.free(held.node, &held.demand, pods);
            }
        }
        self.queues.put_back(candidate.queue, &candidate.demand);
        search.out.remove(&number);
    }

    /// The place that the gang has when all have left who are out.
    fn place_without(&mut self, search: &Search<'_>) -> Option<Vec<Runs>> {
        let mut left = UndoLog::default();
        let out = search
            .out
            .iter()
            .filter_map(|number| search.held.get(*number));
        for held in search.going.iter().chain(out.flatten()) {
            left.lift(
                &mut self.nodes,
                held.node,
                &held.demand,
                held.pods,
                held.held,
            );
        }
        let mut placed = UndoLog::default();
        let shape = Arc::clone(&search.way.shape);
        let groups = self.seek(search.asker.gang, &shape, &mut placed);
        placed.roll_back(&mut self.nodes);
        left.roll_back(&mut self.nodes);
        groups.ok()
    }

    /// Nobody can make room now. When may that be otherwise?
    fn wake_for(&self, search: &Search<'_>, wake: &mut Wake) {
        let tree = self.queues.tree();
        let lacks = tree.lacks(search.asker.queue, search.asker.demand);
        for lack in &lacks {
            let root = self.queues.root(&search.asker.gang.queue);
            wake.on(
                Signal::QuotaFreed(root.clone(), lack.what),
                lack.least_release(),
            );
        }
        match &search.rooms {
            Some(rooms) => {
                for (resource, amount) in rooms.lacking() {
                    wake.on(Signal::Freed(resource), amount);
                }
            }
            None => {
                for (resource, _) in &search.way.shape.total {
                    wake.on(Signal::Freed(*resource), 1);
                }
            }
        }
    }
}

impl Search<'_> {
    /// What is lost with these, the highest priority first; then how many they are.
    fn cost(&self, out: &BTreeSet<usize>) -> (Vec<(i32, u64)>, usize) {
        let mut lost: BTreeMap<i32, u64> = BTreeMap::new();
        for candidate in out.iter().filter_map(|number| self.candidates.get(*number)) {
            let sum = lost.entry(candidate.priority).or_default();
            *sum = sum.saturating_add(candidate.lost_device_seconds);
        }
        (lost.into_iter().rev().collect(), out.len())
    }

    /// Whether quota allows it and nothing that can be counted speaks against it.
    fn promising(&mut self, queues: &crate::queueing::Queues) -> bool {
        if !self.quota {
            self.quota = queues.tree().fits(self.asker.queue, self.asker.demand);
        }
        self.quota && self.rooms.as_ref().is_none_or(Rooms::enough)
    }
}

fn leaver(candidate: &Candidate) -> Leaver {
    let gang: GangIdx = candidate.gang;
    Leaver {
        gang,
        because: candidate.because,
        lost_device_seconds: candidate.lost_device_seconds,
    }
}
