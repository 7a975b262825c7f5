//! Quota heads: the gangs with reserved quota, and the gangs that must leave that quota to them.

use super::super::Engine;
use super::super::flavor_assignment::FlavorAssignment;
use crate::backfill::{BackfillCandidate, QuotaHead};
use crate::explain::WaitDetail;
use crate::gang::Gang;
use crate::ids::{GangId, QueueName};
use crate::queueing::{Blockage, OrderKey, Queues, Signal, WaitKind};
use crate::quota::{Demand, FlavorResource};
use crate::state::{GangIdx, QueueIdx};
use crate::time::Time;

/// Maximum number of queues whose pending gang blocks borrowers under the same root: the queues
/// whose gangs were submitted first. When one of these gangs has started, the next queue follows.
const MAX_OWNERS: usize = 16;

impl Engine {
    /// Returns the first gang of a queue that lacks quota.
    pub(in crate::engine) fn quota_head(&mut self, queue: &QueueName) -> Option<&QuotaHead> {
        if self.reservations.quota_head(queue).is_none() {
            let (key, candidate) = self.reservations.blocked().first_waiting_for_quota(queue)?;
            let key = key.clone();
            let leaf = self.queues.leaf(queue)?;
            self.renew_ends();
            let (gang, demand) = self.candidate_demand(candidate)?;
            let owns = self.queues.tree().lowest_with_nominal(leaf, &demand);
            let owns = owns.is_some();
            // Leaving gangs give back quota to all queues.
            let leave = self.gangs.has_leaving() || self.pods.has_stopping();
            let ends = match owns || leave {
                true => Some(self.reservations.ends().all()),
                false => self.reservations.ends().of_queue(queue),
            };
            let yields = self.gangs_yielding_to(&gang, &demand);
            let first = self.sort_yielding(&yields);
            let first = first.into_iter().map(|at| (None, at));
            let others = |(_, at): &(Option<Time>, GangIdx)| !yields.contains(at);
            let ends = ends.into_iter().flat_map(|ends| ends.iter());
            let ends = first.chain(ends.filter(others));
            let (gangs, keeps) = (&self.gangs, &self.kept_places);
            let held = |queues: &Queues, holder: GangIdx| {
                let of = match (gangs.placed(holder), keeps.get(holder)) {
                    (Some(placed), _) => &placed.gang.queue,
                    (_, Some(keep)) => &keep.gang.queue,
                    _ => return None,
                };
                if !owns && of != queue && !yields.contains(&holder) {
                    return None;
                }
                let tree = queues.tree();
                let at = if of == queue { leaf } else { tree.find(of)? };
                let is_below = at == leaf || tree.root(at) == tree.root(leaf);
                Some((at, queues.shared_charge(of, holder)?)).filter(|_| is_below)
            };
            let who = (candidate.gang, key, &*gang);
            let head = QuotaHead::new(who, (leaf, demand), &mut self.queues, ends, held);
            self.reservations.insert_quota_head(queue.clone(), head);
        }
        self.reservations.quota_head(queue)
    }

    /// Checks that a gang leaves quota to the gangs before it that wait for quota: in its own
    /// queue, and in queues from which it would borrow. Surplus leaves quota to all gangs. A gang
    /// with kept quota takes nothing from other gangs, so it passes. If the head of its queue waits
    /// for other queues, the gang passes that head unless it borrows quota that the head lacks.
    /// `evicts`: victims would leave for the gang.
    ///
    /// # Errors
    ///
    /// The gang would delay another gang.
    pub(in crate::engine) fn check_reserved_quota(
        &mut self,
        gang: &Gang,
        way: &FlavorAssignment,
        evicts: bool,
    ) -> Result<(), Box<Blockage>> {
        if self.reservations.are_ignored() || self.has_kept_quota(gang, way) {
            return Ok(());
        }
        let Some(leaf) = self.queues.leaf(&gang.queue) else {
            return Ok(());
        };
        let asks = (leaf, &way.demand);
        // No victim leaves for a gang that may soon have to leave itself.
        let stay = self.backfill_candidate(gang);
        let preemptible = stay.preemptible && !evicts;
        let stay = BackfillCandidate {
            preemptible,
            ..stay
        };
        self.quota_head(&gang.queue);
        if let Some(head) = self.reservations.quota_head(&gang.queue)
            && head.key < OrderKey::for_gang(gang)
            && !(head.waits_for_other_queues
                && !gang.surplus
                && !head.is_short_of_lent_quota(&mut self.queues, asks, false))
            && !head.allows_start(&stay, &mut self.queues, asks, self.now)
        {
            return Err(self.blocked_by_quota_head(head, way, &gang.queue));
        }
        if self.is_within_nominal(gang, way) {
            return Ok(());
        }
        // The owner may be unable to preempt the gang later.
        let stay = BackfillCandidate {
            preemptible: false,
            ..stay
        };
        for (owner, lent) in self.owner_queues(gang, way) {
            self.quota_head(&owner);
            if let Some(head) = self.reservations.quota_head(&owner)
                && head.is_short_of_lent_quota(&mut self.queues, (leaf, &lent), gang.surplus)
                && !head.allows_start(&stay, &mut self.queues, asks, self.now)
            {
                return Err(self.blocked_by_quota_head(head, way, &owner));
            }
        }
        // Heads that wait for room would otherwise lose their quota, so it is reserved too.
        let root = self.queues.root(&gang.queue);
        for number in self.heads_before(gang, way) {
            let Some(head) = self.reservations.heads().get(number) else {
                continue;
            };
            let queue = head.gang.queue.clone();
            if queue == gang.queue || self.queues.root(&queue) != root {
                continue;
            }
            let Some(head_leaf) = self.queues.leaf(&queue) else {
                continue;
            };
            let lent = self.demand_reserved_for(gang, way, (head_leaf, &head.demand));
            if lent.is_empty() {
                continue;
            }
            let head = QuotaHead::from_head(head, head_leaf);
            if head.is_short_of_lent_quota(&mut self.queues, (leaf, &lent), gang.surplus)
                && !head.allows_start(&stay, &mut self.queues, asks, self.now)
            {
                let mut blocked = self.blocked_by_quota_head(&head, way, &queue);
                blocked
                    .wake
                    .on_rise(Signal::Reservations, 1)
                    .on_rise(Signal::Turns, 1);
                return Err(blocked);
            }
        }
        Ok(())
    }

    /// True if a gang stays within the nominal quota of its queue. Surplus never does.
    fn is_within_nominal(&self, gang: &Gang, way: &FlavorAssignment) -> bool {
        let leaf = self.queues.leaf(&gang.queue).filter(|_| !gang.surplus);
        leaf.is_some_and(|leaf| {
            let tree = self.queues.tree();
            tree.lowest_within(leaf, &way.demand, &Demand::default()) == Some(leaf)
        })
    }

    /// True if a gang stays within the nominal quota of its queue for some resource.
    pub(in crate::engine) fn is_partly_within_nominal(
        &self,
        gang: &Gang,
        way: &FlavorAssignment,
    ) -> bool {
        let leaf = self.queues.leaf(&gang.queue).filter(|_| !gang.surplus);
        leaf.is_some_and(|leaf| {
            let tree = self.queues.tree();
            let mut demand = way.demand.iter();
            demand.any(|(what, need)| {
                let alone = Demand::single(what, need);
                tree.guaranteed(leaf, what).is_some() && !tree.borrows(leaf, &alone)
            })
        })
    }

    /// Returns the part of a gang's demand that it would take from quota reserved for the head of
    /// another queue. The head requests no more than the nominal quota of its queue, or of a queue
    /// above it. The gang would borrow there what that queue, or one above it, does not use. Surplus
    /// must leave all quota.
    fn demand_reserved_for(
        &self,
        gang: &Gang,
        way: &FlavorAssignment,
        (queue, demand): (QueueIdx, &Demand),
    ) -> Demand {
        if gang.surplus {
            return way.demand.clone();
        }
        let tree = self.queues.tree();
        let owner = tree.lowest_with_nominal(queue, demand);
        let Some((leaf, owner)) = self.queues.leaf(&gang.queue).zip(owner) else {
            return Demand::default();
        };
        let is_needed = |(what, _): &(FlavorResource, i128)| demand.amount(*what) > 0;
        let needed: Demand = way.demand.iter().filter(is_needed).collect();
        tree.borrowed_from(leaf, &needed, owner)
    }

    /// Returns the queues under the same root to whose heads a gang must leave quota, each with the part
    /// of the gang's demand that it would take from there.
    fn owner_queues(&mut self, gang: &Gang, way: &FlavorAssignment) -> Vec<(QueueName, Demand)> {
        let root = self.queues.root(&gang.queue);
        let queues = self.reservations.blocked().quota_queues();
        let queues =
            queues.filter(|queue| **queue != gang.queue && self.queues.root(queue) == root);
        let queues: Vec<QueueName> = queues.cloned().collect();
        let mut owners: Vec<(Time, QueueName, Demand)> = Vec::new();
        for queue in queues {
            let first = self.reservations.blocked().first_waiting_for_quota(&queue);
            let first = first.map(|(_, candidate)| candidate);
            let first = first.and_then(|candidate| self.candidate_demand(candidate));
            if let Some(((first, demand), leaf)) = first.zip(self.queues.leaf(&queue)) {
                let lent = self.demand_reserved_for(gang, way, (leaf, &demand));
                if !lent.is_empty() {
                    owners.push((first.submitted, queue, lent));
                }
            }
        }
        owners.sort_unstable_by(|(one, a, _), (other, b, _)| (one, a).cmp(&(other, b)));
        owners.truncate(MAX_OWNERS);
        let owners = owners.into_iter();
        owners.map(|(_, queue, lent)| (queue, lent)).collect()
    }

    /// Returns the blockage of a gang that waits only for the quota that is reserved for the first
    /// gang of a queue.
    fn blocked_by_quota_head(
        &self,
        head: &QuotaHead,
        way: &FlavorAssignment,
        queue: &QueueName,
    ) -> Box<Blockage> {
        let mut wake = super::backfill_placement::wake_on_capacity(way);
        wake.on_rise(Signal::Queues, 1)
            .on_rise(Signal::Head(queue.clone()), 1);
        let root = self.queues.root(queue);
        for what in head.missing_quotas() {
            wake.on_rise(Signal::QuotaFreed(root.clone(), what), 1);
            wake.on_rise(Signal::QuotaTaken(root.clone(), what), 1);
        }
        if let Some(end) = head.first_end {
            wake.at_latest(end.plus_millis(1));
        }
        let state = self.gangs.get(head.gang_idx);
        let detail = WaitDetail::QuotaReserved {
            queue: queue.clone(),
            head: state.map_or_else(|| GangId::new(""), |state| state.gang.id.clone()),
            start: head.start,
        };
        Blockage::new(detail, wake).with_kind(WaitKind::Reserved)
    }
}
