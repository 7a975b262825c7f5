//! The search for victims: it looks for the set with the least loss that makes the preemptor fit.

use fixedbitset::FixedBitSet;

use super::super::Engine;
use super::super::flavor_assignment::FlavorAssignment;
use super::super::reservations::EvictionScope;
use super::candidates::VictimCandidates;
use super::preemptor::Preemptor;
use super::search_data::{EvictionNodes, VictimSearch};
use super::victim_selection::{VictimSet, VictimTrial};
use super::{PlannedVictim, PreemptionPlan};
use crate::gang::Gang;
use crate::placement::{PlacementRequest, PodRuns, excluded_nodes, place_without};
use crate::queue::{BorrowWithinPolicy, PreemptionPolicy, ReclaimPolicy};
use crate::queueing::{Signal, WakeCondition};

/// Maximum number of gangs to try in exchange for members of the cheapest set; an eighth of it if
/// counting pods is not exact.
const MAX_EXCHANGES: usize = 32;

impl Engine {
    /// Finds the victims that make room for a gang with one of its flavor assignments, and its
    /// placement after they leave. Changes nothing. If there are none, `wake` gets the signals that
    /// may change this.
    ///
    /// Surplus leaves first, then gangs of queues that owe what they hold, then lower priorities: a
    /// gang of a higher rank stays if gangs of lower ranks suffice. Among sets of the same ranks,
    /// the set with the least lost work leaves, then the set with fewer gangs. For a gang that must
    /// be in one domain, the search covers each domain and takes the cheapest set.
    ///
    /// Each victim is needed, and together they are enough. For a gang of one group the count of
    /// pods decides this, otherwise a placement by [`crate::placement::place`]. Finding the
    /// cheapest set is a knapsack problem, so the work is bounded. The search tries three orders
    /// ([`VictimSearch::order_by_loss`], [`VictimSearch::order_by_loss_per_room`],
    /// [`VictimSearch::order_by_node`]), for slices also [`VictimSearch::order_by_slice`], and then
    /// exchanges members of the set for up to [`MAX_EXCHANGES`] other gangs. On a single node, with
    /// up to [`super::node_order::MAX_SETS_PER_NODE`] distinct sets, the result is the cheapest.
    pub(in crate::engine) fn plan_preemption(
        &mut self,
        asks: (&Gang, bool),
        (way, ground): (&FlavorAssignment, &EvictionScope),
        wake: &mut WakeCondition,
    ) -> Option<PreemptionPlan> {
        let asker = self.preemptor(asks, (way, ground.right))?;
        let mut budget = asker.budget(&self.queues);
        let mut candidates = self.victim_candidates(&asker, &mut budget);
        if asker.preemption.shares_fairly() {
            self.order_by_share(&asker, &mut candidates);
        }
        budget.undo_changes(&mut self.queues);
        self.watch_claims(&asker, &candidates, wake);
        let next = candidates.protected.iter().map(|(_, until)| *until).min();
        if let Some(next) = next {
            wake.at_latest(next);
        }
        if candidates.list.is_empty() {
            return None;
        }
        // The result also depends on nodes.
        wake.on_rise(Signal::Nodes, 1);
        if !ground.protected_nodes.is_empty() {
            wake.on_rise(Signal::Reservations, 1)
                .on_rise(Signal::Turns, 1);
        }
        let mut excluded = excluded_nodes(&way.shape, &self.nodes);
        excluded.extend_from_slice(&ground.protected_nodes);
        let wish = PlacementRequest {
            shape: &way.shape,
            strategy: asker.gang.strategy,
            excluded: &excluded,
        };
        let search = self.victim_search(asker, wish, &candidates);
        let mut found: Vec<VictimSet> = Vec::new();
        match search.domains(&self.nodes) {
            None => found.extend(self.find_cheapest(&search, &search.eviction_nodes, wake)),
            Some(domains) => {
                for ground in &domains {
                    found.extend(self.find_cheapest(&search, ground, wake));
                }
                if found.is_empty() {
                    watch_all_resources(way, wake);
                }
            }
        }
        // The sort is stable: equal sets stay in order.
        found.sort_by_cached_key(|victims| search.total_loss(&victims.members));
        for victims in found {
            // No more gangs need to leave: the preemptor waits for the gangs that are already
            // leaving.
            if victims.members.is_clear() {
                return None;
            }
            if let Some(groups) = self.place_without(&search, &victims.members) {
                let leaver = |number: usize| {
                    let candidate = candidates.list.get(number)?;
                    Some(PlannedVictim {
                        gang: candidate.gang,
                        reason: *victims.reasons.get(&number)?,
                        lost_device_seconds: candidate.lost_device_seconds,
                    })
                };
                return Some(PreemptionPlan {
                    assignment: way.clone(),
                    groups,
                    victims: victims.members.ones().filter_map(leaver).collect(),
                });
            }
        }
        None
    }

    /// Adds to `wake` the changes that may give the preemptor new claims. Claims depend on what
    /// other queues borrow. They also depend on how far the preemptor's queue would exceed its
    /// quota and that of the queues above it, at best with all candidates of its own queue gone.
    /// Shares of borrowed quota change with every charge below the root, of any resource.
    fn watch_claims(
        &self,
        asker: &Preemptor<'_>,
        candidates: &VictimCandidates,
        wake: &mut WakeCondition,
    ) {
        let PreemptionPolicy {
            reclaim,
            borrow_within,
            ..
        } = asker.preemption;
        let claims = reclaim != ReclaimPolicy::Never || borrow_within != BorrowWithinPolicy::Never;
        if !claims && !self.queues.has_surplus() {
            return;
        }
        let root = self.queues.root(&asker.gang.queue);
        let tree = self.queues.tree();
        let own = candidates.sum_own_charges();
        if asker.preemption.shares_fairly() {
            for what in tree.resources_in_use(asker.queue) {
                wake.on_rise(Signal::QuotaTaken(root.clone(), what), 1);
                wake.on_rise(Signal::QuotaFreed(root.clone(), what), 1);
            }
        }
        for (what, needs) in asker.demand.iter() {
            if tree.guaranteed(asker.queue, what).is_none() {
                continue;
            }
            wake.on_rise(Signal::Borrows(Some(root.clone()), what), 1);
            wake.on_rise(Signal::Borrows(None, what), 1);
            let leaving = own.get(&what).copied().unwrap_or(0);
            let beyond = tree.excess_by_level(asker.queue, what, needs.saturating_sub(leaving));
            if let Some(least) = beyond.filter(|beyond| *beyond > 0).min() {
                wake.on_rise(Signal::QuotaFreed(root.clone(), what), least);
            }
        }
    }

    /// Returns the cheapest victims found that make room on these nodes.
    fn find_cheapest(
        &mut self,
        search: &VictimSearch<'_>,
        ground: &EvictionNodes,
        wake: &mut WakeCondition,
    ) -> Option<VictimSet> {
        let found = self.minimal_victims(search, ground, (&search.order_by_loss(), None), wake);
        let is_cheapest = |victims: &VictimSet| search.is_cheapest(&victims.members);
        if ground.is_count_exact && found.as_ref().is_some_and(is_cheapest) {
            return found;
        }
        let by_room = search.order_by_loss_per_room(ground);
        let mut others = vec![self.minimal_victims(search, ground, (&by_room, None), wake)];
        if ground.is_count_exact {
            let by_node = search.order_by_node(ground, &self.nodes);
            others.push(self.minimal_victims(search, ground, (&by_node, None), wake));
        }
        if let Some(by_slice) = search.order_by_slice(ground, &self.nodes) {
            others.push(self.minimal_victims(search, ground, (&by_slice, None), wake));
        }
        let all = std::iter::once(found).chain(others).flatten();
        let best = all.min_by_key(|victims| search.total_loss(&victims.members))?;
        Some(self.improve_by_exchange(search, ground, best, &by_room))
    }

    /// Improves the set: tries other gangs in this order, each in exchange for members of the set,
    /// and keeps an exchange that lowers the loss.
    fn improve_by_exchange(
        &mut self,
        search: &VictimSearch<'_>,
        ground: &EvictionNodes,
        mut best: VictimSet,
        order: &[usize],
    ) -> VictimSet {
        let tries = if ground.is_count_exact {
            MAX_EXCHANGES
        } else {
            MAX_EXCHANGES / 8
        };
        let mut loss = search.total_loss(&best.members);
        let others: Vec<usize> = order
            .iter()
            .copied()
            .filter(|number| {
                !best.members.contains(*number) && search.candidate_loss(*number) < loss
            })
            .take(tries)
            .collect();
        for other in others {
            if best.members.count_ones(..) < 2 {
                break;
            }
            let first = std::iter::once(other).chain(best.members.ones());
            let first: Vec<usize> = first.collect();
            let mut unused = WakeCondition::default();
            let found = self.minimal_victims(search, ground, (&first, Some(other)), &mut unused);
            if let Some(found) = found.filter(|found| search.total_loss(&found.members) < loss) {
                loss = search.total_loss(&found.members);
                best = found;
            }
        }
        best
    }

    /// Returns the placement of the gang once these victims have left.
    pub(super) fn place_without(
        &mut self,
        search: &VictimSearch<'_>,
        out: &FixedBitSet,
    ) -> Option<Vec<PodRuns>> {
        let leaving = search.departing_charges(out);
        let all = search.departing.iter().chain(&leaving);
        if let Some(groups) =
            self.place_on_seats_without(search.preemptor.gang, &search.request, all)
        {
            return Some(groups);
        }
        place_without(
            &mut self.nodes,
            &mut self.packing,
            &self.catalog,
            &search.request,
            search.departing.iter().chain(&leaving),
        )
    }

    /// Adds to `wake` the changes after which a set of victims may make room.
    pub(super) fn watch_trial(
        &self,
        search: &VictimSearch<'_>,
        trial: &VictimTrial<'_>,
        wake: &mut WakeCondition,
    ) {
        for (what, least) in trial.budget.missing_amounts() {
            let root = self.queues.root(&search.preemptor.gang.queue);
            wake.on_least_rise(Signal::QuotaFreed(root.clone(), what), least);
        }
        for (resource, amount) in trial.rooms.least_missing() {
            wake.on_least_rise(Signal::Freed(resource), amount);
        }
        if trial.is_promising() {
            // The count of pods is not the reason, so any freed resource may help.
            for (resource, _) in &search.request.shape.total {
                wake.on_least_rise(Signal::Freed(*resource), 1);
            }
        }
    }
}

/// Wakes on any freed resource, because no domain could hold the gang.
fn watch_all_resources(way: &FlavorAssignment, wake: &mut WakeCondition) {
    for (resource, _) in &way.shape.total {
        wake.on_least_rise(Signal::Freed(*resource), 1);
    }
}
