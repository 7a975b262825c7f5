//! Adds victims one after another, until the preemptor fits.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;

use super::super::Engine;
use super::search_data::{EvictionNodes, VictimSearch};
use crate::decision::PreemptionReason;
use crate::placement::FitCounter;
use crate::preemption::QuotaBudget;
use crate::queueing::WakeCondition;
use crate::state::QueueIdx;

/// Maximum number of placements to try without a victim, if counting pods is not enough. After
/// that, unneeded victims may remain in the set.
const MAX_PLACEMENT_TRIES: usize = 512;

/// Victims, by number in the list of candidates.
#[derive(Clone, Debug)]
pub(super) struct VictimSet {
    pub(super) members: FixedBitSet,
    /// The reason why each of them may be preempted.
    pub(super) reasons: BTreeMap<usize, PreemptionReason>,
}

/// The victims so far, and the room and quota that they leave.
pub(super) struct VictimTrial<'a> {
    pub(super) victims: FixedBitSet,
    pub(super) rooms: FitCounter,
    pub(super) budget: QuotaBudget<'a>,
    eviction_nodes: &'a EvictionNodes,
    reasons: BTreeMap<usize, PreemptionReason>,
    /// True if a candidate was refused in the state at that moment.
    refused: bool,
    /// The number of victims from the preemptor's own queue.
    own_departures: u32,
}

impl Engine {
    /// Returns the victims after adding candidates in this order until the preemptor fits, without
    /// those that are not needed. Drops `last` only after all other victims were tried. None: the
    /// preemptor never fits.
    pub(super) fn minimal_victims<'a>(
        &mut self,
        search: &VictimSearch<'a>,
        ground: &'a EvictionNodes,
        (order, last): (&[usize], Option<usize>),
        wake: &mut WakeCondition,
    ) -> Option<VictimSet> {
        let mut trial = VictimTrial {
            victims: FixedBitSet::with_capacity(search.candidates.list.len()),
            rooms: ground.rooms.clone(),
            budget: search.preemptor.budget(&self.queues),
            eviction_nodes: ground,
            reasons: BTreeMap::new(),
            refused: false,
            own_departures: 0,
        };
        trial.claim_missing_room();
        let fits = self.add_in_order(search, &mut trial, order);
        if fits {
            self.drop_unneeded_victims(search, &mut trial, last);
        } else {
            self.watch_trial(search, &trial, wake);
        }
        trial.budget.undo_changes(&mut self.queues);
        let VictimTrial {
            victims: out,
            reasons: because,
            ..
        } = trial;
        fits.then_some(VictimSet {
            members: out,
            reasons: because,
        })
    }

    /// Adds victims in this order until the preemptor fits. False: it never does.
    fn add_in_order<'a>(
        &mut self,
        search: &VictimSearch<'a>,
        trial: &mut VictimTrial<'a>,
        order: &[usize],
    ) -> bool {
        // If counting pods is not enough, try a placement only each time the number of victims has
        // doubled.
        let (mut left, mut patience) = (0_usize, 0_usize);
        let mut order: Vec<usize> = order.to_vec();
        loop {
            let own_left = trial.own_departures;
            trial.refused = false;
            if self.add_once(search, trial, &order, (&mut left, &mut patience)) {
                return true;
            }
            // By now another resource may be short, and the preemptor may be owed quota that it
            // would have had to borrow before.
            let owed = trial.refused && trial.own_departures > own_left;
            let more = owed
                || match trial.is_promising() {
                    // Counting pods is not enough: any resource may be short.
                    true => {
                        !trial.eviction_nodes.is_count_exact && trial.claim_all_resources(search)
                    }
                    false => trial.claim_missing_room(),
                };
            if !more {
                return false;
            }
            order.retain(|number| !trial.victims.contains(*number));
        }
    }

    /// Makes one pass over the order.
    fn add_once<'a>(
        &mut self,
        search: &VictimSearch<'a>,
        trial: &mut VictimTrial<'a>,
        order: &[usize],
        (left, patience): (&mut usize, &mut usize),
    ) -> bool {
        let counted = trial.eviction_nodes.is_count_exact;
        for number in order {
            if *left >= *patience && trial.is_promising() {
                if counted || self.place_without(search, &trial.victims).is_some() {
                    return true;
                }
                *patience = left.saturating_mul(2).saturating_add(1);
            }
            let Some((candidate, charge)) = search.candidate(*number) else {
                continue;
            };
            let asked =
                self.preemption_reason(&search.preemptor, &mut trial.budget, (candidate, charge));
            let Some(because) = asked else {
                trial.refused = true;
                continue;
            };
            let room = trial.add_victim(search, *number);
            let of_use = room || !trial.budget.admits_demand();
            if !of_use {
                trial.remove_victim(search, *number);
            } else {
                let queue = candidate.queue;
                trial.budget.release(&mut self.queues, queue, charge);
                if !candidate.is_preemptible() {
                    trial.budget.count_non_preemptible(queue, charge, 1);
                }
                if candidate.is_surplus() {
                    trial.budget.count_surplus_released(queue, charge, 1);
                }
                let own = u32::from(candidate.same_queue);
                trial.own_departures = trial.own_departures.saturating_add(own);
                trial.reasons.insert(*number, because);
                trial.victims.insert(*number);
                *left = left.saturating_add(1);
            }
        }
        trial.is_promising() && (counted || self.place_without(search, &trial.victims).is_some())
    }

    /// Drops every victim that is not needed, the most costly first and `last` at the end.
    fn drop_unneeded_victims<'a>(
        &mut self,
        search: &VictimSearch<'a>,
        trial: &mut VictimTrial<'a>,
        last: Option<usize>,
    ) {
        let mut tries = 0_usize;
        let dearest_first = trial.victims.ones().rev().filter(|n| Some(*n) != last);
        let dearest_first: Vec<usize> = dearest_first.chain(last).collect();
        for number in dearest_first {
            let Some((candidate, charge)) = search.candidate(number) else {
                continue;
            };
            trial.victims.set(number, false);
            if self.can_drop(search, trial, number, &mut tries) {
                let queue = candidate.queue;
                if trial.budget.try_return(&mut self.queues, queue, charge) {
                    if !candidate.is_preemptible() {
                        trial.budget.count_non_preemptible(queue, charge, -1);
                    }
                    if candidate.is_surplus() {
                        trial.budget.count_surplus_released(queue, charge, -1);
                    }
                    let owed = !candidate.same_queue || self.is_still_owed(search, trial);
                    if owed && self.has_still_smaller_share(search, trial, queue) {
                        continue;
                    }
                    trial.budget.release(&mut self.queues, queue, charge);
                    if !candidate.is_preemptible() {
                        trial.budget.count_non_preemptible(queue, charge, 1);
                    }
                    if candidate.is_surplus() {
                        trial.budget.count_surplus_released(queue, charge, 1);
                    }
                }
                trial.add_victim(search, number);
            }
            trial.victims.insert(number);
        }
        let out = &trial.victims;
        trial.reasons.retain(|number, _| out.contains(*number));
    }

    /// True if reclaimed quota is still owed after a gang of the preemptor's queue has come back.
    fn is_still_owed<'a>(
        &mut self,
        search: &VictimSearch<'a>,
        trial: &mut VictimTrial<'a>,
    ) -> bool {
        let reclaimed = trial.victims.ones().filter(|number| {
            let candidate = search.candidates.list.get(*number);
            let is_gang = candidate.is_some_and(|candidate| !candidate.is_surplus());
            is_gang && trial.reasons.get(number) == Some(&PreemptionReason::Borrows)
        });
        let holders = reclaimed.filter_map(|n| Some(search.candidates.list.get(n)?.queue));
        let holders: BTreeSet<QueueIdx> = holders.collect();
        let mut holders = holders.into_iter();
        holders.all(|holder| trial.budget.is_owed(&mut self.queues, holder))
    }

    /// True if the preemptor's queue still has a smaller share than each queue that loses a gang
    /// for it, as if that gang came back. A gang that has come back to the queue `back` matters only
    /// where it counts in the share of the preemptor's side.
    fn has_still_smaller_share<'a>(
        &mut self,
        search: &VictimSearch<'a>,
        trial: &mut VictimTrial<'a>,
        back: QueueIdx,
    ) -> bool {
        let own = search.preemptor.queue;
        let taken = trial.victims.ones().filter(|number| {
            let candidate = search.candidates.list.get(*number);
            let is_gang = candidate.is_some_and(|candidate| !candidate.is_surplus());
            is_gang && trial.reasons.get(number) == Some(&PreemptionReason::FairShare)
        });
        let taken: Vec<usize> = taken.collect();
        taken.into_iter().all(|number| {
            search.candidate(number).is_none_or(|(victim, charge)| {
                let counts = self.queues.tree().is_on_side(back, own, victim.queue);
                !counts
                    || trial
                        .budget
                        .has_larger_share(&mut self.queues, victim.queue, charge)
            })
        })
    }

    /// True if there is still room after a victim comes back. If not, nothing changes.
    fn can_drop(
        &mut self,
        search: &VictimSearch<'_>,
        trial: &mut VictimTrial<'_>,
        number: usize,
        tries: &mut usize,
    ) -> bool {
        if !trial.may_fit_without(search, number) {
            return false;
        }
        trial.remove_victim(search, number);
        let mut fits = trial.rooms.has_enough();
        if fits && !trial.eviction_nodes.is_count_exact {
            *tries = tries.saturating_add(1);
            fits = *tries <= MAX_PLACEMENT_TRIES
                && self.place_without(search, &trial.victims).is_some();
        }
        if !fits {
            trial.add_victim(search, number);
        }
        fits
    }
}

impl VictimTrial<'_> {
    /// True if quota admits the preemptor and the counts of pods are sufficient.
    pub(super) fn is_promising(&self) -> bool {
        self.budget.admits_demand() && self.rooms.has_enough()
    }

    /// Claims victims for the resources that lack room. Returns true if any of these resources is
    /// new.
    fn claim_missing_room(&mut self) -> bool {
        let lacking = self.rooms.least_missing().into_iter();
        self.budget
            .add_scarce_resources(lacking.map(|(resource, _)| resource))
    }

    /// Claims victims for all resources that the gang needs.
    fn claim_all_resources(&mut self, search: &VictimSearch<'_>) -> bool {
        let all = search.request.shape.total.iter();
        self.budget
            .add_scarce_resources(all.map(|(resource, _)| *resource))
    }

    /// Makes a candidate leave its nodes. Returns true if the preemptor can use any of them.
    fn add_victim(&mut self, search: &VictimSearch<'_>, number: usize) -> bool {
        let mut of_use = false;
        for held in search.candidate_usage(number) {
            let left = self
                .rooms
                .release_pods(held.node, search.freed_amounts(held), held.pods);
            of_use |= left && self.eviction_nodes.useful_nodes.contains(held.node.at());
        }
        of_use
    }

    /// Puts a candidate back on its nodes.
    fn remove_victim(&mut self, search: &VictimSearch<'_>, number: usize) {
        for held in search.candidate_usage(number) {
            self.rooms
                .charge_pods(held.node, search.freed_amounts(held), held.pods);
        }
    }

    /// Checks each node of a candidate alone. False: there is no room unless the candidate leaves.
    fn may_fit_without(&self, search: &VictimSearch<'_>, number: usize) -> bool {
        let mut held = search.candidate_usage(number).iter();
        held.all(|held| {
            self.rooms
                .can_charge(held.node, search.freed_amounts(held), held.pods)
        })
    }
}
