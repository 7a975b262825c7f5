//! For whom room is kept, from when on and where.

use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::placed;
use super::ways::Way;
use super::{Engine, Stage};
use crate::backfill::{Candidate, Head, Planner, pool};
use crate::gang::Gang;
use crate::ids::QueueName;
use crate::placement::{Wish, excluded};
use crate::queueing::{OrderKey, Signal};
use crate::quota::Order;

/// Gangs whose start is worked out in vain before heads are looked for no further:
/// each costs a look at all that runs.
const HOPELESS: usize = 16;
/// Heads at most.
const HEADS: usize = 64;

impl Engine {
    /// Whether anybody who waits for room may go before a gang.
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

    /// Makes heads and reservations those of now. Says whether they are others.
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

    /// Queues take turns with the first of each pool that waits for room.
    fn find_heads(&mut self) {
        let mut order = Order::default();
        let mut lines: BTreeMap<QueueName, Vec<(OrderKey, Candidate)>> = BTreeMap::new();
        let queues: Vec<QueueName> = self.backfill.blocked.queues().cloned().collect();
        let quota_ends = queues
            .iter()
            .filter_map(|queue| self.quota_head(queue)?.first_end);
        self.backfill.quota_end = quota_ends.min();
        for queue in &queues {
            let quota_head = self.backfill.quota.get(queue);
            let pools = self.backfill.blocked.pools(queue);
            let mut firsts: Vec<(OrderKey, Candidate)> = Vec::new();
            for (_, line) in pools {
                let there_is_quota = |(key, candidate): &(&OrderKey, &Candidate)| {
                    let ways = self.state(candidate.gang).and_then(|s| s.ways.as_ref());
                    let Some(Ok(ways)) = ways.map(|known| &known.ways) else {
                        return false;
                    };
                    let queue = self.queues.leaf(queue);
                    queue
                        .zip(ways.get(candidate.way))
                        .is_some_and(|(queue, way)| {
                            let tree = self.queues.tree();
                            let before = quota_head.filter(|head| head.key < **key);
                            // However short it is: who is a head must not hang on the clock.
                            tree.fits(queue, &way.demand)
                                && before.is_none_or(|head| {
                                    head.leaves_enough(&way.demand, (tree, queue))
                                })
                        })
                };
                let first = line.iter().find(there_is_quota);
                firsts.extend(first.map(|(key, candidate)| (key.clone(), *candidate)));
            }
            // The last is the first.
            firsts.sort_unstable_by(|a, b| b.0.cmp(&a.0));
            lines.insert(queue.clone(), firsts);
        }
        for queue in &queues {
            self.rank_head(&mut order, queue, &lines);
        }
        let mut taken = FixedBitSet::with_capacity(self.nodes.len());
        let mut hopeless = 0_usize;
        while let Some(queue) = order.first() {
            let Some(name) = self.queues.tree().name(queue).cloned() else {
                return;
            };
            if let Some((key, candidate)) = lines.get_mut(&name).and_then(Vec::pop) {
                match self.head(key, candidate, &taken) {
                    Some(Ok(head)) => {
                        taken.union_with(&head.pool);
                        self.backfill.heads.push(head);
                    }
                    Some(Err(Hopeless)) => hopeless = hopeless.saturating_add(1),
                    None => {}
                }
            }
            if hopeless >= HOPELESS || self.backfill.heads.len() >= HEADS {
                return;
            }
            order.remove(self.queues.tree(), queue);
            self.rank_head(&mut order, &name, &lines);
        }
    }

    fn rank_head(
        &mut self,
        order: &mut Order,
        name: &QueueName,
        lines: &BTreeMap<QueueName, Vec<(OrderKey, Candidate)>>,
    ) {
        let first = lines.get(name).and_then(|line| line.last());
        let demand = first.and_then(|(_, candidate)| self.candidate(*candidate));
        if let Some(((_, demand), queue)) = demand.zip(self.queues.leaf(name)) {
            self.queues.rank(order, queue, &demand);
        }
    }

    /// The candidate as a head. None: another head has nodes that it may use.
    fn head(
        &mut self,
        key: OrderKey,
        Candidate { gang: at, way }: Candidate,
        taken: &FixedBitSet,
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
        let gangs = &self.gangs;
        let ends = self.backfill.ends.iter().filter_map(|(end, at)| {
            let Stage::Placed(placed) = &gangs.get(at.at())?.stage else {
                return None;
            };
            Some((end, placed.holds()))
        });
        let mut planner = Planner {
            nodes: &mut self.nodes,
            packing: &mut self.packing,
            catalog: &self.catalog,
        };
        let Some(plan) = planner.plan(&wish, ends) else {
            return Some(Err(Hopeless));
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

/// A gang for which there would be no place even if all gangs ended.
struct Hopeless;
