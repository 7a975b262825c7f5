//! Reservation of quota for the first gang of a queue that lacks quota.
//!
//! Gangs behind this head in the queue may start if they end before its quota becomes free by known
//! ends, or if they leave enough quota for the head. A head with an unknown start that waits for
//! other queues does not block a gang that stays within the nominal quota of the queue, or that
//! borrows only resources that the head is not short of. Otherwise that quota would be idle for
//! ever.
//!
//! A head that requests no more than the nominal quota of its queue, or of a queue above it, is an
//! *owner*: other queues borrow the quota that it waits for. So gangs below its root that would
//! borrow that quota come after it too, and the head waits for the ends of such gangs. They leave
//! it its quota also while it waits for room. Otherwise it would wait for room and quota in turn.
//! For a head that requests more, only gangs of its own queue count, because this module does not
//! decide whose turn it is to borrow.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::head::{BackfillCandidate, Head, UNKNOWN_START_PATIENCE};
use crate::gang::Gang;
use crate::queueing::{OrderKey, Queues};
use crate::quota::{Demand, FlavorResource};
use crate::state::{GangIdx, QueueIdx};
use crate::time::Time;

/// The first gang of a queue that lacks quota.
#[derive(Clone, Debug)]
pub(crate) struct QuotaHead {
    pub(crate) gang_idx: GangIdx,
    pub(crate) key: OrderKey,
    queue: QueueIdx,
    demand: Demand,
    /// Quota that gangs give back by its start, or by all ends if its start is unknown.
    released_quota: Vec<(QueueIdx, Vec<(FlavorResource, i128)>)>,
    /// When gangs have given back enough quota. None: unknown, or never.
    pub(crate) start: Option<Time>,
    /// The first end that the start relies on.
    pub(crate) first_end: Option<Time>,
    submitted: Time,
    /// True if its start is unknown, and it would lack quota even if its own queue held nothing.
    pub(crate) waits_for_other_queues: bool,
}

impl QuotaHead {
    /// Computes the start of a head. `ends` are the holders in the order in which the engine
    /// assumes that they end. `held` returns the queue and the quota of a holder. Leaving gangs
    /// have no charge any more, but still give back the quota that they hold. Leaves the queues
    /// unchanged.
    pub(crate) fn new(
        (at, key, gang): (GangIdx, OrderKey, &Gang),
        (queue, demand): (QueueIdx, Demand),
        queues: &mut Queues,
        ends: impl Iterator<Item = (Option<Time>, GangIdx)>,
        held: impl Fn(&Queues, GangIdx) -> Option<(QueueIdx, Arc<Demand>)>,
    ) -> Self {
        let root = queues.tree().root(queue).cloned();
        let leavers = queues.leaving_charges().into_iter();
        let leavers = leavers.filter(|(_, of, _)| queues.tree().root(*of) == root.as_ref());
        let mut leavers: BTreeMap<GangIdx, (QueueIdx, Arc<Demand>)> = leavers
            .map(|(gang, queue, held)| (gang, (queue, held)))
            .collect();
        for (queue, held) in leavers.values() {
            let taken: Vec<_> = held.iter().collect();
            queues.shift(*queue, &taken);
        }
        let mut head = Self {
            gang_idx: at,
            key,
            queue,
            demand,
            released_quota: Vec::new(),
            start: None,
            first_end: None,
            submitted: gang.submitted,
            waits_for_other_queues: false,
        };
        for (end, holder) in ends {
            let leaver = leavers.remove(&holder);
            let is_charged = leaver.is_none();
            let Some((queue, held)) = leaver.or_else(|| held(queues, holder)) else {
                continue;
            };
            head.first_end = head.first_end.or(end);
            let back: Vec<_> = negate(held.iter()).collect();
            queues.shift(queue, &back);
            if is_charged {
                head.add_released(queue, &back);
            }
            if queues.tree().fits(head.queue, &head.demand) {
                head.start = end;
                break;
            }
        }
        for (queue, amounts) in &head.released_quota {
            let taken: Vec<_> = negate(amounts.iter().copied()).collect();
            queues.shift(*queue, &taken);
        }
        for (queue, held) in leavers.values() {
            let back: Vec<_> = negate(held.iter()).collect();
            queues.shift(*queue, &back);
        }
        head.waits_for_other_queues =
            head.start.is_none() && !queues.would_fit_alone(head.queue, &head.demand);
        head
    }

    /// Returns the quota head of a head that waits for room and already has quota.
    pub(crate) fn from_head(head: &Head, queue: QueueIdx) -> Self {
        Self {
            gang_idx: head.gang_idx,
            key: head.key.clone(),
            queue,
            demand: head.demand.clone(),
            released_quota: Vec::new(),
            start: head.plan.start,
            first_end: head.plan.first_end,
            submitted: head.gang.submitted,
            waits_for_other_queues: false,
        }
    }

    fn add_released(&mut self, queue: QueueIdx, amounts: &[(FlavorResource, i128)]) {
        let known = self.released_quota.iter().position(|(q, _)| *q == queue);
        let known = known.unwrap_or_else(|| {
            self.released_quota.push((queue, Vec::new()));
            self.released_quota.len().saturating_sub(1)
        });
        let Some((_, sums)) = self.released_quota.get_mut(known) else {
            return;
        };
        for (what, amount) in amounts {
            match sums.iter_mut().find(|(w, _)| w == what) {
                Some((_, sum)) => *sum = sum.saturating_add(*amount),
                None => sums.push((*what, *amount)),
            }
        }
    }

    /// Returns the quotas that it waits for.
    pub(crate) fn missing_quotas(&self) -> impl Iterator<Item = FlavorResource> {
        self.demand.iter().map(|(what, _)| what)
    }

    /// Returns true if the head still gets its quota in time after a gang of a queue gets `demand`.
    /// Leaves the queues unchanged.
    pub(crate) fn still_gets_quota(
        &self,
        queues: &mut Queues,
        (queue, demand): (QueueIdx, &Demand),
    ) -> bool {
        let more: Vec<_> = demand.iter().collect();
        let less: Vec<_> = negate(demand.iter()).collect();
        queues.shift(queue, &more);
        for (queue, back) in &self.released_quota {
            queues.shift(*queue, back);
        }
        let fits = queues.tree().fits(self.queue, &self.demand);
        for (queue, back) in &self.released_quota {
            let taken: Vec<_> = negate(back.iter().copied()).collect();
            queues.shift(*queue, &taken);
        }
        queues.shift(queue, &less);
        fits
    }

    /// Returns true if a gang reduces a quota that the head is short of, when the gang gets the
    /// part of its demand that it would borrow or, with `all`, its whole demand. Leaves the queues
    /// unchanged.
    pub(crate) fn is_short_of_lent_quota(
        &self,
        queues: &mut Queues,
        (queue, demand): (QueueIdx, &Demand),
        all: bool,
    ) -> bool {
        let tree = queues.tree();
        let borrowed = demand
            .iter()
            .filter(|(what, need)| all || tree.borrows(queue, &Demand::single(*what, *need)));
        let borrowed: Vec<_> = borrowed.collect();
        let available = |queues: &Queues, what| queues.tree().available(self.queue, what);
        let before: Vec<_> = self
            .demand
            .iter()
            .map(|(what, _)| available(queues, what))
            .collect();
        queues.shift(queue, &borrowed);
        let is_less = self
            .demand
            .iter()
            .zip(before)
            .any(|((what, need), before)| {
                let after = available(queues, what);
                after < before && after.is_some_and(|after| after < need)
            });
        let back: Vec<_> = negate(borrowed.iter().copied()).collect();
        queues.shift(queue, &back);
        is_less
    }

    /// Returns true if a gang behind the head may start.
    pub(crate) fn allows_start(
        &self,
        stay: &BackfillCandidate,
        queues: &mut Queues,
        asks: (QueueIdx, &Demand),
        now: Time,
    ) -> bool {
        let in_time = match self.start {
            Some(start) => stay.ends_by(start, self.submitted, now),
            None => stay.preemptible && now < self.submitted.plus(UNKNOWN_START_PATIENCE),
        };
        let backfills = stay.backfill && in_time;
        backfills || self.still_gets_quota(queues, asks)
    }
}

fn negate(
    amounts: impl Iterator<Item = (FlavorResource, i128)>,
) -> impl Iterator<Item = (FlavorResource, i128)> {
    amounts.map(|(what, amount)| (what, amount.saturating_neg()))
}
