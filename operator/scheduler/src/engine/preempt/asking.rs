//! Adds victims one after another, until the preemptor fits.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;

use super::super::Engine;
use super::field::{Ground, Search};
use crate::decision::Because;
use crate::placement::Rooms;
use crate::preemption::Budget;
use crate::queueing::Wake;
use crate::quota::QueueIdx;

/// Placements that are tried at most to do without single victims, if counting pods is not enough.
/// Beyond that, victims may remain that are not needed.
const TRIES: usize = 512;

/// Victims, by number in the list of candidates.
#[derive(Clone, Debug)]
pub(super) struct Victims {
    pub(super) out: FixedBitSet,
    /// The reason why each of them may be preempted.
    pub(super) because: BTreeMap<usize, Because>,
}

/// The victims so far, and the room and quota that they leave.
pub(super) struct Trial<'a> {
    pub(super) out: FixedBitSet,
    pub(super) rooms: Rooms,
    pub(super) budget: Budget<'a>,
    ground: &'a Ground,
    because: BTreeMap<usize, Because>,
    /// A candidate was refused, as things were.
    refused: bool,
    /// How many gangs of the preemptor's queue have left.
    own_left: u32,
}

impl Engine {
    /// The victims when candidates are added in this order until the preemptor fits. Victims that
    /// are not needed stay, `last` only if no other victim can. None: the preemptor never fits.
    pub(super) fn fewest<'a>(
        &mut self,
        search: &Search<'a>,
        ground: &'a Ground,
        (order, last): (&[usize], Option<usize>),
        wake: &mut Wake,
    ) -> Option<Victims> {
        let mut trial = Trial {
            out: FixedBitSet::with_capacity(search.parts.len()),
            rooms: ground.rooms.clone(),
            budget: Budget::new(&self.queues, search.asker.queue, search.asker.demand),
            ground,
            because: BTreeMap::new(),
            refused: false,
            own_left: 0,
        };
        trial.looks_for_room();
        let fits = self.ask_in_order(search, &mut trial, order);
        if fits {
            self.keep_dearest(search, &mut trial, last);
        } else {
            self.wake_for(search, &trial, wake);
        }
        trial.budget.end(&mut self.queues);
        let Trial { out, because, .. } = trial;
        fits.then_some(Victims { out, because })
    }

    /// Adds victims in this order until the preemptor fits. False: it never does.
    fn ask_in_order<'a>(
        &mut self,
        search: &Search<'a>,
        trial: &mut Trial<'a>,
        order: &[usize],
    ) -> bool {
        // If counting pods is not enough, a placement is tried only after each doubling.
        let (mut left, mut patience) = (0_usize, 0_usize);
        let mut order: Vec<usize> = order.to_vec();
        loop {
            let own_left = trial.own_left;
            trial.refused = false;
            if self.ask_each(search, trial, &order, (&mut left, &mut patience)) {
                return true;
            }
            // By now another resource may be short, and quota that would have been borrowed may be
            // owed.
            let owed = trial.refused && trial.own_left > own_left;
            let more = owed
                || match trial.is_promising() {
                    // Counting pods is not enough: any resource may be short.
                    true => !trial.ground.counted && trial.looks_for_all(search),
                    false => trial.looks_for_room(),
                };
            if !more {
                return false;
            }
            order.retain(|number| !trial.out.contains(*number));
        }
    }

    /// One pass over the order.
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
            let asked = self.may_still_ask(&search.asker, &mut trial.budget, (candidate, charge));
            let Some(because) = asked else {
                trial.refused = true;
                continue;
            };
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
                let own = u32::from(candidate.same_queue);
                trial.own_left = trial.own_left.saturating_add(own);
                trial.because.insert(*number, because);
                trial.out.insert(*number);
                *left = left.saturating_add(1);
            }
        }
        trial.is_promising() && (counted || self.place_without(search, &trial.out).is_some())
    }

    /// Lets every victim stay that is not needed: the most costly first, and `last` at the end.
    fn keep_dearest<'a>(
        &mut self,
        search: &Search<'a>,
        trial: &mut Trial<'a>,
        last: Option<usize>,
    ) {
        let mut tries = 0_usize;
        let dearest_first = trial.out.ones().rev().filter(|n| Some(*n) != last);
        let dearest_first: Vec<usize> = dearest_first.chain(last).collect();
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
                    if !candidate.same_queue || self.owes_still(search, trial) {
                        continue;
                    }
                    trial.budget.leaves(&mut self.queues, queue, charge);
                    if !candidate.preemptible() {
                        trial.budget.keeps_less(queue, charge, 1);
                    }
                    if candidate.is_surplus() {
                        trial.budget.has_less_surplus(queue, charge, 1);
                    }
                }
                trial.leaves(search, number);
            }
            trial.out.insert(number);
        }
        let out = &trial.out;
        trial.because.retain(|number, _| out.contains(*number));
    }

    /// True if reclaimed quota is still owed after a gang of the preemptor's queue has come back.
    fn owes_still<'a>(&mut self, search: &Search<'a>, trial: &mut Trial<'a>) -> bool {
        let reclaimed = trial.out.ones().filter(|number| {
            let candidate = search.candidates.list.get(*number);
            let is_gang = candidate.is_some_and(|candidate| !candidate.is_surplus());
            is_gang && trial.because.get(number) == Some(&Because::Borrows)
        });
        let holders = reclaimed.filter_map(|n| Some(search.candidates.list.get(n)?.queue));
        let holders: BTreeSet<QueueIdx> = holders.collect();
        let mut holders = holders.into_iter();
        holders.all(|holder| trial.budget.is_owed(&mut self.queues, holder))
    }

    /// True if there is still room after a victim comes back. If not, nothing changes.
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
}

impl Trial<'_> {
    /// True if quota admits the preemptor and the counts of pods are sufficient.
    pub(super) fn is_promising(&self) -> bool {
        self.budget.does() && self.rooms.enough()
    }

    /// Claims victims for the resources that lack room. Returns true if any of these is new.
    fn looks_for_room(&mut self) -> bool {
        let lacking = self.rooms.lacking().into_iter();
        self.budget
            .lacks_room(lacking.map(|(resource, _)| resource))
    }

    /// Claims victims for all resources that the gang needs.
    fn looks_for_all(&mut self, search: &Search<'_>) -> bool {
        let all = search.wish.shape.total.iter();
        self.budget.lacks_room(all.map(|(resource, _)| *resource))
    }

    /// A candidate leaves its nodes. Returns true if any of them is of use.
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

    /// False if there is no room without its departure, judged by each of its nodes alone.
    fn may_bear(&self, search: &Search<'_>, number: usize) -> bool {
        let mut held = search.held_by(number).iter();
        held.all(|held| self.rooms.bears(held.node, search.freed(held), held.pods))
    }
}
