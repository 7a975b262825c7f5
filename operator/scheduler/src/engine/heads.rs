//! Heads: the gangs that room is reserved for, when they start, and on which nodes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::departures;
use super::placed;
use super::ways::Way;
use super::{Engine, Stage};
use crate::backfill::{Candidate, Head, Leaver, Planner, Pool, in_order, pool};
use crate::gang::{Gang, Strategy};
use crate::ids::QueueName;
use crate::placement::{Wish, excluded};
use crate::queueing::{OrderKey, Signal};
use crate::quota::Order;
use crate::state::{GangIdx, Shape};
use crate::time::Time;

/// Gangs without a possible start that are tried before the search for heads stops, because each of
/// them costs a look at all running gangs. Equal gangs count once.
const HOPELESS: usize = 32;
/// Gangs that are skipped at most because an equal gang has no possible start.
const PASSED: usize = 1024;
/// Heads at most.
const HEADS: usize = 64;

/// A gang that may become head of a pool, if no gang before it does.
struct Front {
    key: OrderKey,
    candidate: Candidate,
    pool: Pool,
}

/// The first gang of each pool by queue, and the gangs without a possible start, for which the next
/// gang of the pool stands in. The last entry of a list is the first in order.
#[derive(Default)]
struct Fronts {
    by_queue: BTreeMap<QueueName, Vec<Front>>,
    hopeless: HashSet<(Arc<Shape>, Strategy)>,
    passed: usize,
}

impl Fronts {
    fn insert(&mut self, queue: &QueueName, front: Front) {
        let line = self.by_queue.entry(queue.clone()).or_default();
        // The best flavor assignment of a gang is its first.
        let rank = |f: &Front| (f.key.clone(), f.candidate.way);
        let here = rank(&front);
        let at = line.partition_point(|f| rank(f) > here);
        line.insert(at, front);
    }

    fn first(&self, queue: &QueueName) -> Option<&Front> {
        self.by_queue.get(queue)?.last()
    }

    fn pop(&mut self, queue: &QueueName) -> Option<Front> {
        self.by_queue.get_mut(queue)?.pop()
    }
}

impl Engine {
    /// True if a gang that waits for room may come before this one. With many queues the answer is
    /// true without a search.
    pub(super) fn somebody_goes_before(&mut self, gang: &Gang, way: &Way) -> bool {
        let queues: Vec<QueueName> = self.backfill.blocked.queues().take(16).cloned().collect();
        if queues.len() == 16 {
            return true;
        }
        queues.into_iter().any(|queue| {
            let pools = self.backfill.blocked.pools(&queue);
            let firsts: Vec<Candidate> = pools
                .filter_map(|(_, line)| line.values().next().copied())
                .collect();
            firsts.into_iter().any(|first| {
                let Some((first, demand)) = self.candidate(first) else {
                    return false;
                };
                self.goes_before(&first, &demand, gang, &way.demand)
            })
        })
    }

    /// Computes heads and reservations again. Returns true if they have changed.
    pub(super) fn renew_heads(&mut self) -> bool {
        self.backfill.stale = false;
        self.backfill.outdated = false;
        self.backfill.packing = self.packing.version();
        self.backfill.quota_end = None;
        if self.backfill.blocked.is_empty() && self.backfill.heads.is_empty() {
            return false;
        }
        self.renew_ends();
        let before = std::mem::take(&mut self.backfill.heads);
        self.find_heads();
        let heads = &self.backfill.heads;
        let same =
            before.len() == heads.len() && before.iter().zip(heads).all(|(a, b)| a.is_like(b));
        self.refusals.clear_restrained();
        if !same {
            self.parking.raise(&Signal::Reservations, 1);
        }
        !same
    }

    /// Queues take turns with the first gang of each pool that waits for room and may ever get it.
    fn find_heads(&mut self) {
        let mut order = Order::default();
        let mut fronts = Fronts::default();
        let queues: Vec<QueueName> = self.backfill.blocked.queues().cloned().collect();
        let quota_ends = queues
            .iter()
            .filter_map(|queue| self.quota_head(queue)?.first_end);
        self.backfill.quota_end = quota_ends.min();
        for queue in &queues {
            let pools = self.backfill.blocked.pools(queue);
            let pools: Vec<Pool> = pools.map(|(pool, _)| pool.clone()).collect();
            for pool in pools {
                self.bring_forward(&mut fronts, queue, pool, None);
            }
            self.rank_head(&mut order, queue, &fronts);
        }
        let mut taken = FixedBitSet::with_capacity(self.nodes.len());
        let others = self.pods_that_leave();
        while let Some(queue) = order.first(self.queues.tree()) {
            let Some(name) = self.queues.tree().name(queue).cloned() else {
                return;
            };
            if let Some(front) = fronts.pop(&name) {
                self.try_front(front, &name, &mut fronts, (&mut taken, &others));
            }
            if fronts.hopeless.len() >= HOPELESS || self.backfill.heads.len() >= HEADS {
                return;
            }
            order.remove(self.queues.tree(), queue);
            self.rank_head(&mut order, &name, &fronts);
        }
    }

    /// Makes the first gang in a pool its head, or brings the next one forward.
    fn try_front(
        &mut self,
        front: Front,
        queue: &QueueName,
        fronts: &mut Fronts,
        (taken, others): (&mut FixedBitSet, &[Leaver]),
    ) {
        let Front {
            key,
            candidate,
            pool,
        } = front;
        // A gang that room is reserved for with one flavor assignment needs none with another.
        let mut heads = self.backfill.heads.iter();
        if heads.any(|head| head.at == candidate.gang) {
            self.bring_forward(fronts, queue, pool, Some(&key));
            return;
        }
        match self.head(key.clone(), candidate, (taken, others)) {
            Some(Ok(head)) => {
                taken.union_with(&head.pool);
                self.backfill.heads.push(head);
            }
            Some(Err(Hopeless(shape, strategy))) => {
                fronts.hopeless.insert((shape, strategy));
                self.bring_forward(fronts, queue, pool, Some(&key));
            }
            // All gangs of the pool may use these nodes, so none of them becomes head.
            None => {}
        }
    }

    /// Brings forward the next gang of a pool that has quota and is not known to have no possible
    /// start.
    fn bring_forward(
        &mut self,
        fronts: &mut Fronts,
        queue: &QueueName,
        pool: Pool,
        after: Option<&OrderKey>,
    ) {
        let mut after = after.cloned();
        while fronts.passed < PASSED {
            let next = self.backfill.blocked.next(queue, &pool, after.as_ref());
            let Some((key, candidate)) = next.map(|(key, c)| (key.clone(), c)) else {
                return;
            };
            let kind = self.kind_of(candidate);
            let has_no_hope = kind.is_none_or(|kind| fronts.hopeless.contains(&kind));
            if !has_no_hope && self.there_is_quota(queue, &key, candidate) {
                let front = Front {
                    key,
                    candidate,
                    pool,
                };
                fronts.insert(queue, front);
                return;
            }
            fronts.passed = fronts.passed.saturating_add(usize::from(has_no_hope));
            after = Some(key);
        }
    }

    /// The properties that decide if a candidate has a possible start.
    fn kind_of(&self, candidate: Candidate) -> Option<(Arc<Shape>, Strategy)> {
        let state = self.state(candidate.gang)?;
        let ways = state.ways.as_ref()?.ways.as_ref().ok()?;
        let way = ways.get(candidate.way)?;
        Some((Arc::clone(&way.shape), state.gang.strategy))
    }

    /// True if a candidate has quota, besides what is reserved in its queue. A short runtime is no
    /// exception here, because the choice of heads must not depend on the time.
    fn there_is_quota(&mut self, queue: &QueueName, key: &OrderKey, candidate: Candidate) -> bool {
        let ways = self
            .gangs
            .get(candidate.gang.at())
            .and_then(|state| state.ways.as_ref());
        let Some(Ok(ways)) = ways.map(|known| &known.ways) else {
            return false;
        };
        let leaf = self.queues.leaf(queue);
        let Some((leaf, way)) = leaf.zip(ways.get(candidate.way)) else {
            return false;
        };
        let head = self.backfill.quota.get(queue);
        let before = head.filter(|head| head.key < *key);
        let kept = self.keeps.get(candidate.gang);
        let kept = kept.and_then(|k| self.queues.set_aside(&k.gang.queue, candidate.gang));
        let is_there = self.queues.tree().fits(leaf, &way.demand)
            && before.is_none_or(|head| head.leaves_enough(&mut self.queues, (leaf, &way.demand)));
        if let Some(kept) = kept {
            self.queues.put_back(kept);
        }
        is_there
    }

    fn rank_head(&mut self, order: &mut Order, name: &QueueName, fronts: &Fronts) {
        let first = fronts.first(name).map(|front| front.candidate);
        let demand = first.and_then(|candidate| self.candidate(candidate));
        if let Some(((gang, demand), queue)) = demand.zip(self.queues.leaf(name)) {
            let next = self.queues.next(&gang, &demand);
            self.queues.rank(order, queue, next);
        }
    }

    /// Makes the candidate a head. None: another head has nodes that it may use.
    fn head(
        &mut self,
        key: OrderKey,
        Candidate { gang: at, way }: Candidate,
        (taken, others): (&FixedBitSet, &[Leaver]),
    ) -> Option<Result<Head, Hopeless>> {
        let Ok(ways) = self.ways(at)? else {
            return None;
        };
        let way = ways.get(way)?;
        let gang = Arc::clone(&self.state(at)?.gang);
        self.packing.prepare(&mut self.nodes, &mut self.catalog);
        self.catalog.refresh(&way.shape, &self.nodes);
        let pool = pool(&way.shape, &self.catalog, &self.nodes);
        if !pool.is_disjoint(taken) {
            return None;
        }
        let excluded = excluded(&way.shape, &self.nodes);
        let wish = Wish {
            shape: &way.shape,
            strategy: gang.strategy,
            excluded: &excluded,
        };
        let yields = self.yields_to(&gang, &way.demand);
        let first = self.in_yielding_order(&yields);
        let (gangs, pods, catalog) = (&self.gangs, &self.pods, &self.catalog);
        let leaver = |(end, at): (Option<Time>, GangIdx)| {
            if let Some(keep) = self.keeps.get(at) {
                let holds = keep.holds(catalog);
                return Some(Leaver { end, holds });
            }
            let Stage::Placed(placed) = &gangs.get(at.at())?.stage else {
                return None;
            };
            let parts = placed.parts(pods).into_iter();
            let holds = parts.map(|part| departures::hold(&part, catalog)).collect();
            Some(Leaver { end, holds })
        };
        let first = first.into_iter().filter_map(|at| leaver((None, at)));
        let others_of = |(_, at): &(Option<Time>, GangIdx)| !yields.contains(at);
        let ends = self
            .backfill
            .ends
            .iter()
            .filter(others_of)
            .filter_map(leaver);
        // Among leavers without a known end, terminating pods come first.
        let ends = first.chain(in_order(others.iter().cloned(), ends));
        let mut planner = Planner {
            nodes: &mut self.nodes,
            packing: &mut self.packing,
            catalog: &self.catalog,
        };
        let Some(plan) = planner.plan(&wish, ends, others) else {
            return Some(Err(Hopeless(Arc::clone(&way.shape), gang.strategy)));
        };
        let placement = placed::placement(&self.nodes, &gang, plan.groups.iter());
        Some(Ok(Head {
            at,
            key,
            demand: way.demand.clone(),
            pool,
            plan,
            placement,
            gang,
        }))
    }
}

/// A gang that would not fit even if all gangs ended.
struct Hopeless(Arc<Shape>, Strategy);
