//! Heads: the gangs with reserved room, their expected starts and their nodes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::super::Engine;
use super::super::flavor_assignment::FlavorAssignment;
use super::super::gang_table;
use crate::backfill::{
    Departure, Head, HeadCandidate, NodePool, Planner, merge_by_end, usable_nodes,
};
use crate::gang::{Gang, PlacementStrategy};
use crate::ids::QueueName;
use crate::placement::{PlacementRequest, excluded_nodes};
use crate::queueing::{OrderKey, Signal};
use crate::quota::TurnOrder;
use crate::state::{GangIdx, GangShape};
use crate::time::Time;

/// Maximum number of gangs without a possible start before the search for heads stops: each costs a
/// pass over all running gangs. Equal gangs count once.
const MAX_HOPELESS: usize = 32;
/// Maximum number of gangs skipped because an equal gang has no possible start.
const MAX_SKIPPED: usize = 1024;
/// Maximum number of heads.
const MAX_HEADS: usize = 64;

/// A gang that becomes head of its pool unless a gang before it does.
struct HeadContender {
    key: OrderKey,
    candidate: HeadCandidate,
    pool: NodePool,
}

/// The first gang of each pool by queue, and the gangs without a possible start, each replaced by
/// the next gang of its pool. The last entry of a list comes first in order.
#[derive(Default)]
struct HeadContenders {
    by_queue: BTreeMap<QueueName, Vec<HeadContender>>,
    hopeless: HashSet<(Arc<GangShape>, PlacementStrategy)>,
    skipped: usize,
}

impl HeadContenders {
    fn insert(&mut self, queue: &QueueName, front: HeadContender) {
        let line = self.by_queue.entry(queue.clone()).or_default();
        // The best flavor assignment of a gang is its first.
        let rank = |f: &HeadContender| (f.key.clone(), f.candidate.assignment);
        let here = rank(&front);
        let at = line.partition_point(|f| rank(f) > here);
        line.insert(at, front);
    }

    fn first(&self, queue: &QueueName) -> Option<&HeadContender> {
        self.by_queue.get(queue)?.last()
    }

    fn pop(&mut self, queue: &QueueName) -> Option<HeadContender> {
        self.by_queue.get_mut(queue)?.pop()
    }
}

impl Engine {
    /// True if a gang that waits for room may come before this one. With many queues it returns
    /// true without a search.
    pub(in crate::engine) fn has_gang_before(
        &mut self,
        gang: &Gang,
        way: &FlavorAssignment,
    ) -> bool {
        let queues: Vec<QueueName> = self
            .reservations
            .blocked()
            .queues()
            .take(16)
            .cloned()
            .collect();
        if queues.len() == 16 {
            return true;
        }
        queues.into_iter().any(|queue| {
            let pools = self.reservations.blocked().pools(&queue);
            let firsts: Vec<HeadCandidate> = pools
                .filter_map(|(_, line)| line.values().next().copied())
                .collect();
            firsts.into_iter().any(|first| {
                let Some((first, demand)) = self.candidate_demand(first) else {
                    return false;
                };
                self.queues.is_before(&first, &demand, gang, &way.demand)
            })
        })
    }

    /// Computes heads and reservations again. Returns true if they have changed.
    pub(in crate::engine) fn renew_heads(&mut self) -> bool {
        let Some(before) = self.reservations.start_renewal(self.packing.version()) else {
            return false;
        };
        self.renew_ends();
        self.find_heads();
        let changed = self.reservations.differs_from(&before);
        self.blockages.clear_restrained();
        if changed {
            self.scheduling_queue.raise(&Signal::Reservations, 1);
        }
        changed
    }

    /// Finds the heads. Queues take turns, each with the first gang of each pool that waits for
    /// room and could get it at some time.
    fn find_heads(&mut self) {
        let mut order = TurnOrder::default();
        let mut fronts = HeadContenders::default();
        let queues: Vec<QueueName> = self.reservations.blocked().queues().cloned().collect();
        let quota_ends = queues
            .iter()
            .filter_map(|queue| self.quota_head(queue)?.first_end);
        let first_quota_end = quota_ends.min();
        self.reservations.set_first_quota_end(first_quota_end);
        for queue in &queues {
            let pools = self.reservations.blocked().pools(queue);
            let pools: Vec<NodePool> = pools.map(|(pool, _)| pool.clone()).collect();
            for pool in pools {
                self.advance_contender(&mut fronts, queue, pool, None);
            }
            self.rank_head(&mut order, queue, &fronts);
        }
        let mut taken = FixedBitSet::with_capacity(self.nodes.index_bound());
        let others = self.departing_pods();
        while let Some(queue) = order.first(self.queues.tree()) {
            let Some(name) = self.queues.tree().name(queue).cloned() else {
                return;
            };
            if let Some(front) = fronts.pop(&name) {
                self.try_contender(front, &name, &mut fronts, (&mut taken, &others));
            }
            if fronts.hopeless.len() >= MAX_HOPELESS || self.reservations.heads().len() >= MAX_HEADS
            {
                return;
            }
            order.remove(self.queues.tree(), queue);
            self.rank_head(&mut order, &name, &fronts);
        }
    }

    /// Makes the first gang of a pool its head, or moves on to the next gang.
    fn try_contender(
        &mut self,
        front: HeadContender,
        queue: &QueueName,
        fronts: &mut HeadContenders,
        (taken, others): (&mut FixedBitSet, &[Departure]),
    ) {
        let HeadContender {
            key,
            candidate,
            pool,
        } = front;
        // A gang with a reservation for one flavor assignment needs no second one for another
        // assignment.
        if self.reservations.is_head(candidate.gang) {
            self.advance_contender(fronts, queue, pool, Some(&key));
            return;
        }
        match self.make_head(key.clone(), candidate, (taken, others)) {
            Some(Ok(head)) => {
                taken.union_with(&head.usable_nodes);
                self.reservations.push_head(head);
            }
            Some(Err(ImpossibleStart(shape, strategy))) => {
                fronts.hopeless.insert((shape, strategy));
                self.advance_contender(fronts, queue, pool, Some(&key));
            }
            // A head already has nodes of this pool, so no gang of the pool becomes head.
            None => {}
        }
    }

    /// Moves on to the next gang of a pool that has quota and may have a possible start.
    fn advance_contender(
        &mut self,
        fronts: &mut HeadContenders,
        queue: &QueueName,
        pool: NodePool,
        after: Option<&OrderKey>,
    ) {
        let mut after = after.cloned();
        while fronts.skipped < MAX_SKIPPED {
            let next = self
                .reservations
                .blocked()
                .next_in_pool(queue, &pool, after.as_ref());
            let Some((key, candidate)) = next.map(|(key, c)| (key.clone(), c)) else {
                return;
            };
            let kind = self.start_key(candidate);
            let has_no_hope = kind.is_none_or(|kind| fronts.hopeless.contains(&kind));
            if !has_no_hope && self.has_quota(queue, &key, candidate) {
                let front = HeadContender {
                    key,
                    candidate,
                    pool,
                };
                fronts.insert(queue, front);
                return;
            }
            fronts.skipped = fronts.skipped.saturating_add(usize::from(has_no_hope));
            after = Some(key);
        }
    }

    /// Returns the properties that decide if a candidate has a possible start.
    fn start_key(&self, candidate: HeadCandidate) -> Option<(Arc<GangShape>, PlacementStrategy)> {
        let state = self.gangs.get(candidate.gang)?;
        let ways = state.assignments.as_ref()?.assignments.as_ref().ok()?;
        let way = ways.get(candidate.assignment)?;
        Some((Arc::clone(&way.shape), state.gang.strategy))
    }

    /// True if a candidate has quota beyond the reserved quota of its queue. A short runtime gives
    /// no exemption here, because the choice of heads must not depend on the time.
    fn has_quota(&mut self, queue: &QueueName, key: &OrderKey, candidate: HeadCandidate) -> bool {
        let ways = self
            .gangs
            .get(candidate.gang)
            .and_then(|state| state.assignments.as_ref());
        let Some(Ok(ways)) = ways.map(|known| &known.assignments) else {
            return false;
        };
        let leaf = self.queues.leaf(queue);
        let Some((leaf, way)) = leaf.zip(ways.get(candidate.assignment)) else {
            return false;
        };
        let head = self.reservations.quota_head(queue);
        let before = head.filter(|head| head.key < *key);
        let kept = self.kept_places.get(candidate.gang);
        let kept = kept.and_then(|k| self.queues.lift_charge(&k.gang.queue, candidate.gang));
        let is_there = self.queues.tree().fits(leaf, &way.demand)
            && before
                .is_none_or(|head| head.still_gets_quota(&mut self.queues, (leaf, &way.demand)));
        if let Some(kept) = kept {
            self.queues.put_back_charge(kept);
        }
        is_there
    }

    fn rank_head(&mut self, order: &mut TurnOrder, name: &QueueName, fronts: &HeadContenders) {
        let first = fronts.first(name).map(|front| front.candidate);
        let demand = first.and_then(|candidate| self.candidate_demand(candidate));
        if let Some(((gang, demand), queue)) = demand.zip(self.queues.leaf(name)) {
            let next = self.queues.next_gang(&gang, &demand);
            self.queues.rank(order, queue, next);
        }
    }

    /// Makes the candidate a head. None: another head has nodes that it may use.
    fn make_head(
        &mut self,
        key: OrderKey,
        HeadCandidate {
            gang: at,
            assignment: way,
        }: HeadCandidate,
        (taken, others): (&FixedBitSet, &[Departure]),
    ) -> Option<Result<Head, ImpossibleStart>> {
        let Ok(ways) = self.assignments(at)? else {
            return None;
        };
        let way = ways.get(way)?;
        let gang = Arc::clone(&self.gangs.get(at)?.gang);
        self.packing.prepare(&mut self.nodes, &mut self.catalog);
        self.catalog.refresh(&way.shape, &self.nodes);
        let pool = usable_nodes(&way.shape, &self.catalog, &self.nodes);
        if !pool.is_disjoint(taken) {
            return None;
        }
        let excluded = excluded_nodes(&way.shape, &self.nodes);
        let wish = PlacementRequest {
            shape: &way.shape,
            strategy: gang.strategy,
            excluded: &excluded,
        };
        let yields = self.gangs_yielding_to(&gang, &way.demand);
        let first = self.sort_yielding(&yields);
        let (gangs, pods, catalog) = (&self.gangs, self.pods.known(), &self.catalog);
        let leaver = |(end, at): (Option<Time>, GangIdx)| {
            if let Some(keep) = self.kept_places.get(at) {
                let holds = keep.node_charges(catalog);
                return Some(Departure {
                    end,
                    charges: holds,
                });
            }
            let parts = gangs.placed(at)?.node_usages(pods).into_iter();
            let holds = parts.map(|part| part.to_charge(catalog)).collect();
            Some(Departure {
                end,
                charges: holds,
            })
        };
        let first = first.into_iter().filter_map(|at| leaver((None, at)));
        let others_of = |(_, at): &(Option<Time>, GangIdx)| !yields.contains(at);
        let by_domain = self.ends_by_domain(&way.shape, &yields, &pool);
        let by_time = by_domain.is_none().then(|| self.reservations.ends().all());
        let by_time = by_time.into_iter().flat_map(|ends| ends.iter());
        let ends = by_domain.into_iter().flatten().chain(by_time);
        let ends = ends.filter(others_of).filter_map(leaver);
        // Among departures without a known end, terminating pods come first.
        let ends = first.chain(merge_by_end(others.iter().cloned(), ends));
        let mut planner = Planner {
            nodes: &mut self.nodes,
            packing: &mut self.packing,
            catalog: &self.catalog,
        };
        let Some(plan) = planner.plan(&wish, ends, others) else {
            return Some(Err(ImpossibleStart(Arc::clone(&way.shape), gang.strategy)));
        };
        let placement = gang_table::placement(&self.nodes, &gang, plan.groups.iter());
        Some(Ok(Head {
            gang_idx: at,
            key,
            demand: way.demand.clone(),
            usable_nodes: pool,
            plan,
            placement,
            gang,
        }))
    }
}

/// A gang that would not fit even if all gangs ended.
struct ImpossibleStart(Arc<GangShape>, PlacementStrategy);
