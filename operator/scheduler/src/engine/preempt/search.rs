//! The search for victims: among the sets that make the preemptor fit, the one that loses least.

use fixedbitset::FixedBitSet;

use super::super::Engine;
use super::super::beside::EvictionGround;
use super::super::ways::Way;
use super::asker::Asker;
use super::asking::{Trial, Victims};
use super::candidates::Candidates;
use super::field::{Ground, Search};
use super::{Leaver, Plan};
use crate::gang::Gang;
use crate::placement::{Runs, Wish, excluded, place_without};
use crate::preemption::Budget;
use crate::queue::{BorrowWithin, Preemption, Reclaim};
use crate::queueing::{Signal, Wake};

/// Gangs that are tried at most in place of some of the cheapest set; an eighth of that if counting
/// pods is not exact.
const EXCHANGES: usize = 32;

impl Engine {
    /// The victims that make room for a gang with one of its flavor assignments, and its placement
    /// then. Changes nothing. If there are none, `wake` learns when that may change.
    ///
    /// Surplus leaves first, then gangs of queues that owe what they hold, then lower priorities: a
    /// gang of a higher rank stays if gangs of lower ranks suffice. Among sets of the same ranks,
    /// the set that loses least work leaves, then the one with fewer gangs. For a gang that must be
    /// in one domain, the search covers each domain and takes the cheapest set.
    ///
    /// Each victim is needed, and together they are enough: by count for a gang of one group,
    /// otherwise as [`crate::placement::place`] finds places. Finding the cheapest set is a
    /// knapsack problem, so the work is bounded. The search tries three orders
    /// ([`Search::by_loss`], [`Search::by_loss_for_room`], [`Search::by_node`]), and then
    /// [`EXCHANGES`] gangs in place of some of the set. On a single node, with up to
    /// [`super::by_node::SETS`] distinct sets, the result is the cheapest.
    pub(in crate::engine) fn make_room(
        &mut self,
        asks: (&Gang, bool),
        (way, ground): (&Way, &EvictionGround),
        wake: &mut Wake,
    ) -> Option<Plan> {
        let asker = self.asker(asks, (way, ground.right))?;
        let mut budget = Budget::new(&self.queues, asker.queue, &way.demand);
        let candidates = self.candidates(&asker, &mut budget);
        budget.end(&mut self.queues);
        self.watch_claims(&asker, &candidates, wake);
        let next = candidates.protected.iter().map(|(_, until)| *until).min();
        if let Some(next) = next {
            wake.at(next);
        }
        if candidates.list.is_empty() {
            return None;
        }
        // The rest depends on nodes.
        wake.on(Signal::Nodes, 1);
        if !ground.kept.is_empty() {
            wake.on(Signal::Reservations, 1).on(Signal::Turns, 1);
        }
        let mut excluded = excluded(&way.shape, &self.nodes);
        excluded.extend_from_slice(&ground.kept);
        let wish = Wish {
            shape: &way.shape,
            strategy: asker.gang.strategy,
            excluded: &excluded,
        };
        let search = self.search(asker, wish, &candidates);
        let mut found: Vec<Victims> = Vec::new();
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
        // The sort is stable: equal sets stay in order.
        found.sort_by_cached_key(|victims| search.loss(&victims.out));
        for victims in found {
            // No more gangs need to leave: the preemptor waits for those that already do.
            if victims.out.is_clear() {
                return None;
            }
            if let Some(groups) = self.place_without(&search, &victims.out) {
                let leaver = |number: usize| {
                    let candidate = candidates.list.get(number)?;
                    Some(Leaver {
                        gang: candidate.gang,
                        because: *victims.because.get(&number)?,
                        lost_device_seconds: candidate.lost_device_seconds,
                    })
                };
                return Some(Plan {
                    way: way.clone(),
                    groups,
                    victims: victims.out.ones().filter_map(leaver).collect(),
                });
            }
        }
        None
    }

    /// Claims depend on what other queues borrow. They also depend on how much the preemptor's
    /// queue would exceed its quota and that of the queues above it, at best with all candidates of
    /// its own queue gone.
    fn watch_claims(&self, asker: &Asker<'_>, candidates: &Candidates, wake: &mut Wake) {
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
        let own = candidates.held_by_own();
        for (what, needs) in asker.demand.iter() {
            if tree.guaranteed(asker.queue, what).is_none() {
                continue;
            }
            wake.on(Signal::Borrows(Some(root.clone()), what), 1);
            wake.on(Signal::Borrows(None, what), 1);
            let leaving = own.get(&what).copied().unwrap_or(0);
            let beyond = tree.beyond(asker.queue, what, needs.saturating_sub(leaving));
            if let Some(least) = beyond.filter(|beyond| *beyond > 0).min() {
                wake.on(Signal::QuotaFreed(root.clone(), what), least);
            }
        }
    }

    /// The cheapest victims found that make room on these nodes.
    fn cheapest(
        &mut self,
        search: &Search<'_>,
        ground: &Ground,
        wake: &mut Wake,
    ) -> Option<Victims> {
        let found = self.fewest(search, ground, (&search.by_loss(), None), wake);
        let is_cheapest = |victims: &Victims| search.is_cheapest(&victims.out);
        if ground.counted && found.as_ref().is_some_and(is_cheapest) {
            return found;
        }
        let by_room = search.by_loss_for_room(ground);
        let mut others = vec![self.fewest(search, ground, (&by_room, None), wake)];
        if ground.counted {
            let by_node = search.by_node(ground, &self.nodes);
            others.push(self.fewest(search, ground, (&by_node, None), wake));
        }
        let all = std::iter::once(found).chain(others).flatten();
        let best = all.min_by_key(|victims| search.loss(&victims.out))?;
        Some(self.exchange(search, ground, best, &by_room))
    }

    /// Improves the set by putting one other gang, in this order, in place of some, while that
    /// loses less.
    fn exchange(
        &mut self,
        search: &Search<'_>,
        ground: &Ground,
        mut best: Victims,
        order: &[usize],
    ) -> Victims {
        let tries = if ground.counted {
            EXCHANGES
        } else {
            EXCHANGES / 8
        };
        let mut loss = search.loss(&best.out);
        let others: Vec<usize> = order
            .iter()
            .copied()
            .filter(|number| !best.out.contains(*number) && search.loss_of(*number) < loss)
            .take(tries)
            .collect();
        for other in others {
            if best.out.count_ones(..) < 2 {
                break;
            }
            let first = std::iter::once(other).chain(best.out.ones());
            let first: Vec<usize> = first.collect();
            let mut unused = Wake::default();
            let found = self.fewest(search, ground, (&first, Some(other)), &mut unused);
            if let Some(found) = found.filter(|found| search.loss(&found.out) < loss) {
                loss = search.loss(&found.out);
                best = found;
            }
        }
        best
    }

    /// The placement of the gang once these victims have left.
    pub(super) fn place_without(
        &mut self,
        search: &Search<'_>,
        out: &FixedBitSet,
    ) -> Option<Vec<Runs>> {
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

    /// No set of victims makes room now. Tells `wake` when that may change.
    pub(super) fn wake_for(&self, search: &Search<'_>, trial: &Trial<'_>, wake: &mut Wake) {
        for (what, least) in trial.budget.lacking() {
            let root = self.queues.root(&search.asker.gang.queue);
            wake.on_least(Signal::QuotaFreed(root.clone(), what), least);
        }
        for (resource, amount) in trial.rooms.lacking() {
            wake.on_least(Signal::Freed(resource), amount);
        }
        if trial.is_promising() {
            // Counting pods is not why it fails, so any resource that becomes free may help.
            for (resource, _) in &search.wish.shape.total {
                wake.on_least(Signal::Freed(*resource), 1);
            }
        }
    }
}

/// No domain could hold the gang, so any resource that becomes free may help.
fn wake_for_any(way: &Way, wake: &mut Wake) {
    for (resource, _) in &way.shape.total {
        wake.on_least(Signal::Freed(*resource), 1);
    }
}
