//! What is kept for whom, and what others may do beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::placed::{self, Placed};
use super::refusals::Restraints;
use super::ways::Way;
use super::{Engine, Stage};
use crate::backfill::{
    Candidate, Head, Hold, Planner, QuotaHead, Reservation, Restraint, Stay, excluded, pool,
};
use crate::decision::Decision;
use crate::explain::{Detail, WaitReason};
use crate::gang::Gang;
use crate::ids::{GangId, QueueName};
use crate::placement::{Runs, UndoLog, Wish};
use crate::queueing::{Blocked, OrderKey, Phase, Signal, Wake};
use crate::quota::{Demand, Order};
use crate::state::{GangIdx, ResourceIdx};
use crate::time::Time;

/// Gangs whose start is worked out in vain before heads are looked for no further:
/// each costs a look at all that runs.
const HOPELESS: usize = 16;
/// Heads at most.
const HEADS: usize = 64;

impl Engine {
    /// What is kept for a gang that waits for room, as of the last cycle. None
    /// where others go before it, or it does not wait for room.
    #[must_use]
    pub fn reservation(&self, gang: &GangId) -> Option<Reservation> {
        self.backfill.told.get(gang).cloned()
    }

    /// All that is kept, by gang, as of the last cycle.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.backfill.told.values()
    }

    /// What changes with time alone has changed.
    pub(super) fn check_reservations(&mut self) {
        let late = self.backfill.expires().is_some_and(|end| end <= self.now);
        if late || self.backfill.packing != self.packing.version() {
            self.backfill.stale = true;
        }
        let now = self.now;
        self.backfill
            .quota
            .retain(|_, head| head.first_end.is_none_or(|end| end >= now));
    }

    /// A gang has its place from now on.
    pub(super) fn starts_to_end(&mut self, at: GangIdx) {
        let Some(Stage::Placed(placed)) = self.state(at).map(|state| &state.stage) else {
            return;
        };
        let (id, queue) = (placed.gang.id.clone(), placed.gang.queue.clone());
        let (since, end) = (placed.since, self.end(&placed.gang, placed.since));
        let ends = self.backfill.ends_in.entry(queue).or_default();
        ends.insert(at, &id, since, end);
        self.backfill.ends.insert(at, &id, since, end);
        self.backfill.quota.clear();
    }

    /// A gang has its place no longer.
    pub(super) fn has_ended(&mut self, at: GangIdx, queue: &QueueName) {
        if let Some(ends) = self.backfill.ends_in.get_mut(queue) {
            ends.remove(at);
            if ends.is_empty() {
                self.backfill.ends_in.remove(queue);
            }
        }
        self.backfill.ends.remove(at);
        self.backfill.disturb();
    }

    /// When a gang ends that has its place since then.
    fn end(&self, gang: &Gang, since: Time) -> Option<Time> {
        let default = || self.queues.config(&gang.queue)?.default_runtime;
        let runtime = gang.runtime.or_else(default)?;
        Some(since.plus(runtime).plus(gang.grace))
    }

    fn stay(&self, gang: &Gang, now: Time) -> Stay {
        let config = self.queues.config(&gang.queue);
        Stay {
            end: self.end(gang, now),
            preemptible: gang.preemptible,
            backfill: config.is_none_or(|queue| queue.backfill),
        }
    }

    /// Ends are known by the queues of now, as of now.
    fn renew_ends(&mut self) {
        if self.backfill.config != self.config {
            self.backfill.config = self.config;
            self.backfill.ends_in.clear();
            let placed: Vec<GangIdx> = self.backfill.ends.iter().map(|(_, at)| at).collect();
            for at in placed {
                self.starts_to_end(at);
            }
        }
        self.backfill.ends.advance(self.now);
        for ends in self.backfill.ends_in.values_mut() {
            ends.advance(self.now);
        }
    }

    /// A gang that waits is to be looked at again, or waits no longer.
    pub(super) fn forget_blocked(&mut self, at: GangIdx) {
        let waited_for_room = self.backfill.blocked.remove(at);
        if waited_for_room && self.backfill.heads.iter().any(|head| head.at == at) {
            self.backfill.stale = true;
        }
        let heads = self.backfill.quota.len();
        self.backfill.quota.retain(|_, head| head.at != at);
        self.backfill.stale |= heads != self.backfill.quota.len();
    }

    /// A gang goes on waiting.
    pub(super) fn note_blocked(&mut self, at: GangIdx, blocked: &Blocked) {
        let Blocked { phase, way, .. } = *blocked;
        self.backfill.blocked.remove(at);
        if !matches!(phase, Phase::Quota | Phase::Capacity) {
            return;
        }
        let Some(Ok(ways)) = self.ways(at) else {
            return;
        };
        let Some((chosen, state)) = ways.get(way).zip(self.gangs.get(at.at())) else {
            return;
        };
        let gang = Arc::clone(&state.gang);
        let key = OrderKey::of(&gang);
        let candidate = Candidate { gang: at, way };
        let what = (phase, chosen.shape.as_ref());
        let blocked = &mut self.backfill.blocked;
        blocked.insert(&gang.queue, key.clone(), candidate, what);
        if phase == Phase::Quota {
            let quota = &mut self.backfill.quota;
            if quota.get(&gang.queue).is_none_or(|head| key < head.key) {
                quota.remove(&gang.queue);
                self.backfill.stale = true;
            }
        } else if !self.backfill.stale && !self.is_behind_a_head(&gang, chosen) {
            self.backfill.stale = true;
        }
    }

    fn is_behind_a_head(&self, gang: &Gang, way: &Way) -> bool {
        self.backfill.heads.iter().any(|head| {
            self.goes_before(&head.gang, &head.demand, gang, &way.demand)
                && head.meets(&way.shape, &self.catalog, &self.nodes)
        })
    }

    /// Whether one gang goes before another: in its queue by its place there, else
    /// by whose turn it would be.
    fn goes_before(
        &self,
        gang: &Gang,
        demand: &Demand,
        other: &Gang,
        other_demand: &Demand,
    ) -> bool {
        if gang.queue == other.queue {
            return OrderKey::of(gang) < OrderKey::of(other);
        }
        let Some(queue) = self.queues.leaf(&gang.queue) else {
            return false;
        };
        let Some(other) = self.queues.leaf(&other.queue) else {
            return true;
        };
        let mut order = Order::default();
        self.queues.rank(&mut order, queue, demand);
        self.queues.rank(&mut order, other, other_demand);
        order.first() == Some(queue)
    }

    /// A gang starts, and is not charged yet: what it takes may have been reserved
    /// for those who come after it.
    pub(super) fn has_started(&mut self, at: GangIdx, gang: &Gang, way: &Way) {
        self.forget_blocked(at);
        self.backfill.outdated = true;
        if self.backfill.stale {
            return;
        }
        let heads = &self.backfill.heads;
        let respected = heads.iter().all(|head| {
            self.goes_before(&head.gang, &head.demand, gang, &way.demand)
                || !head.meets(&way.shape, &self.catalog, &self.nodes)
        });
        self.backfill.stale = !respected;
    }

    /// Whether anybody who waits for room may go before a gang.
    fn somebody_goes_before(&mut self, gang: &Gang, way: &Way) -> bool {
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

    fn candidate(&mut self, candidate: Candidate) -> Option<(Arc<Gang>, Demand)> {
        let Ok(ways) = self.ways(candidate.gang)? else {
            return None;
        };
        let demand = ways.get(candidate.way)?.demand.clone();
        Some((Arc::clone(&self.state(candidate.gang)?.gang), demand))
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
            Some((end, holds(placed)))
        });
        let mut planner = Planner {
            nodes: &mut self.nodes,
            packing: &mut self.packing,
            catalog: &self.catalog,
        };
        let Some(mut plan) = planner.plan(&wish, ends) else {
            return Some(Err(Hopeless));
        };
        let groups = std::mem::take(&mut plan.groups).into_iter();
        plan.groups = groups
            .map(|runs| placed::by_name(&self.nodes, runs))
            .collect();
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

    /// Heads that are new or have moved since they were last told.
    pub(super) fn tell_reservations(&mut self) -> Vec<Decision> {
        let told = std::mem::take(&mut self.backfill.told);
        let mut news = Vec::new();
        for head in &self.backfill.heads {
            let reservation = head.reservation();
            if told.get(head.id()) != Some(&reservation) {
                let Reservation {
                    gang,
                    start,
                    placement,
                } = reservation.clone();
                news.push(Decision::Reserve {
                    gang,
                    start,
                    placement,
                });
            }
            self.backfill.told.insert(head.id().clone(), reservation);
        }
        news
    }

    /// The first gang of a queue that quota blocks.
    fn quota_head(&mut self, queue: &QueueName) -> Option<&QuotaHead> {
        if !self.backfill.quota.contains_key(queue) {
            let (key, candidate) = self.backfill.blocked.first_for_quota(queue)?;
            let key = key.clone();
            let at = self.queues.leaf(queue)?;
            self.renew_ends();
            let (gang, demand) = self.candidate(candidate)?;
            let head = QuotaHead::new(
                (candidate.gang, key, &gang),
                &demand,
                (self.queues.tree(), at),
                self.backfill.ends_in.get(queue),
                |holder| self.queues.held(queue, holder),
            );
            self.backfill.quota.insert(queue.clone(), head);
        }
        self.backfill.quota.get(queue)
    }

    /// Whether a gang leaves the quota that a gang before it in its queue waits for.
    ///
    /// # Errors
    ///
    /// It would make that one later.
    fn leave_quota(&mut self, gang: &Gang, way: &Way, now: Time) -> Result<(), Box<Blocked>> {
        if self.backfill.ignored {
            return Ok(());
        }
        self.quota_head(&gang.queue);
        let queue = self.queues.leaf(&gang.queue);
        let head = self.backfill.quota.get(&gang.queue);
        let Some((head, queue)) = head.zip(queue) else {
            return Ok(());
        };
        let tree = (self.queues.tree(), queue);
        let stay = self.stay(gang, now);
        if head.key >= OrderKey::of(gang) || head.lets(&stay, &way.demand, tree, now) {
            return Ok(());
        }
        let mut wake = wake(way);
        wake.on(Signal::Queues, 1)
            .on(Signal::Head(gang.queue.clone()), 1);
        let root = self.queues.root(&gang.queue);
        for what in head.quotas() {
            wake.on(Signal::QuotaFreed(root.clone(), what), 1);
            wake.on(Signal::QuotaTaken(root.clone(), what), 1);
        }
        if let Some(end) = head.first_end {
            wake.at(end.plus_millis(1));
        }
        let name = self.state(head.at).map(|state| state.gang.id.clone());
        let detail = Detail::QuotaReserved {
            queue: gang.queue.clone(),
            head: name.unwrap_or_else(|| gang.id.clone()),
            start: head.start,
        };
        Err(Blocked::new(detail, wake).in_phase(Phase::Reserved))
    }

    /// What a gang must do about heads, by number, in their order.
    fn restraints(&mut self, gang: &Gang, way: &Way, now: Time) -> Restraints {
        if self.backfill.ignored {
            return Restraints::new();
        }
        if self.backfill.stale {
            if !self.somebody_goes_before(gang, way) {
                return Restraints::new();
            }
            self.renew_heads();
        }
        if self.backfill.heads.is_empty() {
            return Restraints::new();
        }
        let stay = self.stay(gang, now);
        self.catalog.refresh(&way.shape, &self.nodes);
        let heads = self.backfill.heads.iter().enumerate();
        let restrained = heads.filter_map(|(number, head)| {
            let restraint = head.restrains(&stay, now)?;
            let applies = head.gang.id != gang.id
                && self.goes_before(&head.gang, &head.demand, gang, &way.demand)
                && head.meets(&way.shape, &self.catalog, &self.nodes);
            applies.then_some((number, restraint))
        });
        restrained.collect()
    }

    /// A place that makes no head later that goes before the gang.
    ///
    /// # Errors
    ///
    /// There is no place; or there is one, but not beside what is kept.
    pub(super) fn find_place_beside(
        &mut self,
        gang: &Gang,
        way: &Way,
        now: Time,
        log: &mut UndoLog,
    ) -> Result<Vec<Runs>, Box<Blocked>> {
        if let Some(refusal) = self.refusals.get(gang, &way.shape) {
            return Err(in_phase(refusal));
        }
        let quota = self.leave_quota(gang, way, now);
        let restraints = self.restraints(gang, way, now);
        let restrained = !restraints.is_empty();
        if quota.is_ok() && restrained && !self.refusals.is_restrained(&way.shape, &restraints) {
            if let Some(groups) = self.place_beside(gang, way, &restraints, log) {
                return Ok(groups);
            }
            self.refusals.restrain(&way.shape, restraints.clone());
        }
        if quota.is_ok() && !restrained {
            return self.find_place(gang, &way.shape, log).map_err(in_phase);
        }
        // It does not start. Why depends on whether there is a place.
        if !self.refusals.is_fitting(&way.shape) {
            let mut trial = UndoLog::default();
            let found = self.find_place(gang, &way.shape, &mut trial);
            trial.roll_back(&mut self.nodes);
            found.map_err(in_phase)?;
            self.refusals.fits(&way.shape);
        }
        quota?;
        Err(self.reserved(way, restraints.first().map_or(0, |(head, _)| *head)))
    }

    /// The gang in what the heads leave.
    fn place_beside(
        &mut self,
        gang: &Gang,
        way: &Way,
        restraints: &Restraints,
        log: &mut UndoLog,
    ) -> Option<Vec<Runs>> {
        if restraints.iter().any(|(_, r)| *r == Restraint::Stop) {
            return None;
        }
        self.packing.prepare(&mut self.nodes, &mut self.catalog);
        let mut kept = UndoLog::default();
        for (number, restraint) in restraints {
            let Some(head) = self.backfill.heads.get(*number) else {
                continue;
            };
            for Hold { node, demand, pods } in &head.plan.keep {
                kept.charge(&mut self.nodes, *node, demand, *pods);
            }
            if *restraint == Restraint::Avoid {
                // Every pod needs one of these.
                let pods = self.catalog.pods();
                for node in head.nodes() {
                    let free = self.nodes.free(pods, node).max(0);
                    let all = Arc::new(vec![(pods, free)]);
                    kept.charge(&mut self.nodes, node, &all, 1);
                }
            }
        }
        let mut trial = UndoLog::default();
        let found = self.try_place(gang, &way.shape, &mut trial);
        trial.roll_back(&mut self.nodes);
        kept.roll_back(&mut self.nodes);
        let groups = found.ok()?;
        // Shares are given anew, since those that were kept are not there now.
        for (group, runs) in way.shape.groups.iter().zip(&groups) {
            for (node, pods) in runs {
                log.charge(&mut self.nodes, *node, &group.demand, *pods);
            }
        }
        let overbooks = |(resource, _): &(ResourceIdx, i64)| {
            let device = self.nodes.shared_device(*resource);
            let used = groups.iter().flatten();
            device.is_some_and(|device| {
                used.into_iter()
                    .any(|(n, _)| self.nodes.free(device, *n) < 0)
            })
        };
        let mut demands = way.shape.groups.iter().flat_map(|g| g.demand.iter());
        if demands.any(overbooks) {
            log.roll_back(&mut self.nodes);
            return None;
        }
        Some(groups)
    }

    /// The gang waits for nothing but what is kept for that head.
    fn reserved(&self, way: &Way, head: usize) -> Box<Blocked> {
        let mut wake = wake(way);
        wake.on(Signal::Reservations, 1).on(Signal::Turns, 1);
        let head = self.backfill.heads.get(head);
        let nodes: std::collections::BTreeSet<_> = head.into_iter().flat_map(Head::nodes).collect();
        let detail = Detail::Reserved {
            head: head.map_or_else(|| GangId::new(""), |head| head.id().clone()),
            start: head.and_then(|head| head.plan.start),
            nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
        };
        Blocked::new(detail, wake).in_phase(Phase::Reserved)
    }
}

/// A gang for which there would be no place even if all gangs ended.
struct Hopeless;

/// Who could never start holds nobody up.
fn in_phase(blocked: Box<Blocked>) -> Box<Blocked> {
    match blocked.certificate.reason {
        WaitReason::NoMatchingNodes | WaitReason::NodesAvoided | WaitReason::ExceedsCluster => {
            blocked
        }
        _ => blocked.in_phase(Phase::Capacity),
    }
}

/// When there may be a place no more, or another.
fn wake(way: &Way) -> Wake {
    let mut wake = Wake::default();
    wake.on(Signal::Nodes, 1);
    for (resource, _) in &way.shape.total {
        wake.on(Signal::Freed(*resource), 1);
        wake.on(Signal::Taken(*resource), 1);
    }
    wake
}

/// What a gang holds where it was planned.
fn holds(placed: &Placed) -> impl Iterator<Item = Hold> {
    let groups = placed.shape.groups.iter().zip(&placed.groups);
    groups.flat_map(|(shape, group)| {
        group.there().map(|(node, pods)| Hold {
            node,
            demand: Arc::clone(&shape.demand),
            pods,
        })
    })
}
