//! Quota heads: the gangs that quota is reserved for, and the gangs that must leave it to them.

use super::ways::Way;
use super::{Engine, Stage};
use crate::backfill::{QuotaHead, Stay};
use crate::explain::Detail;
use crate::gang::Gang;
use crate::ids::{GangId, QueueName};
use crate::queueing::{Blocked, OrderKey, Phase, Queues, Signal};
use crate::quota::{Demand, QueueIdx};
use crate::state::GangIdx;
use crate::time::Time;

/// Queues whose pending gang blocks borrowers under the same root, at most: those whose gangs were
/// submitted first. When one of them has started, the next follows.
const OWNERS: usize = 16;

impl Engine {
    /// The first gang of a queue that lacks quota.
    pub(super) fn quota_head(&mut self, queue: &QueueName) -> Option<&QuotaHead> {
        if !self.backfill.quota.contains_key(queue) {
            let (key, candidate) = self.backfill.blocked.first_for_quota(queue)?;
            let key = key.clone();
            let leaf = self.queues.leaf(queue)?;
            self.renew_ends();
            let (gang, demand) = self.candidate(candidate)?;
            let owns = self.queues.tree().lowest_with_nominal(leaf, &demand);
            let owns = owns.is_some();
            // Leaving gangs give back to all queues.
            let leave = self.departures.has_gangs() || !self.stopping.is_empty();
            let ends = match owns || leave {
                true => Some(&self.backfill.ends),
                false => self.backfill.ends_in.get(queue),
            };
            let yields = self.yields_to(&gang, &demand);
            let first = self.in_yielding_order(&yields);
            let first = first.into_iter().map(|at| (None, at));
            let others = |(_, at): &(Option<Time>, GangIdx)| !yields.contains(at);
            let ends = ends.into_iter().flat_map(|ends| ends.iter());
            let ends = first.chain(ends.filter(others));
            let (gangs, keeps) = (&self.gangs, &self.keeps);
            let held = |queues: &Queues, holder: GangIdx| {
                let of = match (&gangs.get(holder.at())?.stage, keeps.get(holder)) {
                    (Stage::Placed(placed), _) => &placed.gang.queue,
                    (_, Some(keep)) => &keep.gang.queue,
                    _ => return None,
                };
                if !owns && of != queue && !yields.contains(&holder) {
                    return None;
                }
                let tree = queues.tree();
                let at = if of == queue { leaf } else { tree.find(of)? };
                let is_below = at == leaf || tree.root(at) == tree.root(leaf);
                Some((at, queues.charge_of(of, holder)?)).filter(|_| is_below)
            };
            let who = (candidate.gang, key, &*gang);
            let head = QuotaHead::new(who, (leaf, demand), &mut self.queues, ends, held);
            self.backfill.quota.insert(queue.clone(), head);
        }
        self.backfill.quota.get(queue)
    }

    /// Checks that a gang leaves the quota that gangs before it wait for: in its queue, and where
    /// it would borrow what another queue owns. Surplus leaves quota to all gangs. A gang that has
    /// quota kept takes nothing from other gangs. A gang that borrows nothing of which the head of
    /// its queue is short need not leave quota to a head that waits for other queues. `evicts`:
    /// victims would leave for the gang.
    ///
    /// # Errors
    ///
    /// The gang would delay another one.
    pub(super) fn leave_quota(
        &mut self,
        gang: &Gang,
        way: &Way,
        now: Time,
        evicts: bool,
    ) -> Result<(), Box<Blocked>> {
        if self.backfill.ignored || self.has_kept_quota(gang, way) {
            return Ok(());
        }
        let Some(leaf) = self.queues.leaf(&gang.queue) else {
            return Ok(());
        };
        let asks = (leaf, &way.demand);
        // No victim leaves for a gang that might have to leave itself soon.
        let stay = self.staying(gang, now);
        let preemptible = stay.preemptible && !evicts;
        let stay = Stay {
            preemptible,
            ..stay
        };
        self.quota_head(&gang.queue);
        if let Some(head) = self.backfill.quota.get(&gang.queue)
            && head.key < OrderKey::of(gang)
            && !(head.waits_for_other_queues
                && !gang.surplus
                && !head.is_lent_to(&mut self.queues, asks, false))
            && !head.lets(&stay, &mut self.queues, asks, now)
        {
            return Err(self.quota_is_kept(head, way, &gang.queue));
        }
        if self.is_within_nominal(gang, way) {
            return Ok(());
        }
        // The owner may be unable to preempt the gang later.
        let stay = Stay {
            preemptible: false,
            ..stay
        };
        for owner in self.owners(gang, way) {
            self.quota_head(&owner);
            if let Some(head) = self.backfill.quota.get(&owner)
                && head.is_lent_to(&mut self.queues, asks, gang.surplus)
                && !head.lets(&stay, &mut self.queues, asks, now)
            {
                return Err(self.quota_is_kept(head, way, &owner));
            }
        }
        // Heads that wait for room would lose their quota meanwhile, so it is reserved too.
        let root = self.queues.root(&gang.queue);
        for number in self.heads_before(gang, way) {
            let Some(head) = self.backfill.heads.get(number) else {
                continue;
            };
            let queue = head.gang.queue.clone();
            if queue == gang.queue || self.queues.root(&queue) != root {
                continue;
            }
            let Some(leaf) = self.queues.leaf(&queue) else {
                continue;
            };
            if !self.is_kept_from(gang, way, (leaf, &head.demand)) {
                continue;
            }
            let head = QuotaHead::of_head(head, leaf);
            if head.is_lent_to(&mut self.queues, asks, gang.surplus)
                && !head.lets(&stay, &mut self.queues, asks, now)
            {
                let mut blocked = self.quota_is_kept(&head, way, &queue);
                blocked
                    .wake
                    .on(Signal::Reservations, 1)
                    .on(Signal::Turns, 1);
                return Err(blocked);
            }
        }
        Ok(())
    }

    /// True if a gang stays within the nominal quota of its queue. Surplus never does.
    fn is_within_nominal(&self, gang: &Gang, way: &Way) -> bool {
        let leaf = self.queues.leaf(&gang.queue).filter(|_| !gang.surplus);
        leaf.is_some_and(|leaf| {
            let tree = self.queues.tree();
            tree.lowest_within(leaf, &way.demand, &Demand::default()) == Some(leaf)
        })
    }

    /// True if a gang stays within the nominal quota of its queue for some resource.
    pub(super) fn is_partly_within_nominal(&self, gang: &Gang, way: &Way) -> bool {
        let leaf = self.queues.leaf(&gang.queue).filter(|_| !gang.surplus);
        leaf.is_some_and(|leaf| {
            let tree = self.queues.tree();
            let mut demand = way.demand.iter();
            demand.any(|(what, need)| {
                let alone: Demand = std::iter::once((what, need)).collect();
                tree.guaranteed(leaf, what).is_some() && !tree.borrows(leaf, &alone)
            })
        })
    }

    /// True if quota is reserved from a gang for the head of another queue. The head asks for no
    /// more than the quota of its queue, or of a queue above it, and the gang would borrow from
    /// there. All quota is reserved from surplus.
    fn is_kept_from(&self, gang: &Gang, way: &Way, (queue, demand): (QueueIdx, &Demand)) -> bool {
        let tree = self.queues.tree();
        let Some(leaf) = self.queues.leaf(&gang.queue).filter(|_| !gang.surplus) else {
            return gang.surplus;
        };
        tree.lowest_with_nominal(queue, demand)
            .is_some_and(|owner| {
                !tree.is_below(leaf, owner) && tree.borrows_from(leaf, &way.demand, owner)
            })
    }

    /// The queues below the root of a gang's queue for whose head quota is reserved from it.
    fn owners(&mut self, gang: &Gang, way: &Way) -> Vec<QueueName> {
        let root = self.queues.root(&gang.queue);
        let queues = self.backfill.blocked.queues_for_quota();
        let queues =
            queues.filter(|queue| **queue != gang.queue && self.queues.root(queue) == root);
        let queues: Vec<QueueName> = queues.cloned().collect();
        let mut owners: Vec<(Time, QueueName)> = Vec::new();
        for queue in queues {
            let first = self.backfill.blocked.first_for_quota(&queue);
            let first = first.map(|(_, candidate)| candidate);
            let first = first.and_then(|candidate| self.candidate(candidate));
            if let Some(((first, demand), leaf)) = first.zip(self.queues.leaf(&queue))
                && self.is_kept_from(gang, way, (leaf, &demand))
            {
                owners.push((first.submitted, queue));
            }
        }
        owners.sort_unstable();
        owners.truncate(OWNERS);
        owners.into_iter().map(|(_, queue)| queue).collect()
    }

    /// The gang waits only for the quota that is reserved for the first gang of a queue.
    fn quota_is_kept(&self, head: &QuotaHead, way: &Way, queue: &QueueName) -> Box<Blocked> {
        let mut wake = super::beside::wake(way);
        wake.on(Signal::Queues, 1)
            .on(Signal::Head(queue.clone()), 1);
        let root = self.queues.root(queue);
        for what in head.quotas() {
            wake.on(Signal::QuotaFreed(root.clone(), what), 1);
            wake.on(Signal::QuotaTaken(root.clone(), what), 1);
        }
        if let Some(end) = head.first_end {
            wake.at(end.plus_millis(1));
        }
        let state = self.state(head.at);
        let detail = Detail::QuotaReserved {
            queue: queue.clone(),
            head: state.map_or_else(|| GangId::new(""), |state| state.gang.id.clone()),
            start: head.start,
        };
        Blocked::new(detail, wake).in_phase(Phase::Reserved)
    }
}
