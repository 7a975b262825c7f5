//! The order of gangs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::gang::Gang;
use crate::ids::{GangId, QueueName};
use crate::state::GangIdx;
use crate::time::Time;

/// Priority, then submission, then name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderKey {
    priority: Reverse<i32>,
    submitted: Time,
    id: GangId,
}

impl OrderKey {
    pub(crate) fn of(gang: &Gang) -> Self {
        Self {
            priority: Reverse(gang.priority),
            submitted: gang.submitted,
            id: gang.id.clone(),
        }
    }
}

/// The gangs that wait: all of them by queue, and those that are to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    queues: BTreeMap<QueueName, BTreeSet<OrderKey>>,
    due: BTreeMap<OrderKey, GangIdx>,
    count: usize,
}

impl Waiting {
    /// A gang begins to wait; it is to be looked at.
    pub(crate) fn insert(&mut self, gang: &Gang, at: GangIdx) {
        let key = OrderKey::of(gang);
        self.due.insert(key.clone(), at);
        if self
            .queues
            .entry(gang.queue.clone())
            .or_default()
            .insert(key)
        {
            self.count = self.count.saturating_add(1);
        }
    }

    /// A gang waits no longer.
    pub(crate) fn remove(&mut self, gang: &Gang) {
        let key = OrderKey::of(gang);
        self.due.remove(&key);
        let Some(queue) = self.queues.get_mut(&gang.queue) else {
            return;
        };
        if queue.remove(&key) {
            self.count = self.count.saturating_sub(1);
        }
        if queue.is_empty() {
            self.queues.remove(&gang.queue);
        }
    }

    /// A gang that waits is to be looked at.
    pub(crate) fn make_due(&mut self, gang: &Gang, at: GangIdx) {
        self.due.insert(OrderKey::of(gang), at);
    }

    /// The first that is to be looked at.
    pub(crate) fn pop_due(&mut self) -> Option<GangIdx> {
        self.due.pop_first().map(|(_, at)| at)
    }

    /// How many gangs wait in each queue in which any does.
    pub(crate) fn by_queue(&self) -> impl Iterator<Item = (&QueueName, usize)> {
        self.queues
            .iter()
            .map(|(queue, gangs)| (queue, gangs.len()))
    }

    /// How many gangs wait.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The place of a gang in its queue, from 1. Costs the gangs before it.
    pub(crate) fn position(&self, gang: &Gang) -> Option<usize> {
        let key = OrderKey::of(gang);
        let queue = self.queues.get(&gang.queue)?;
        if !queue.contains(&key) {
            return None;
        }
        Some(queue.range(..=key).count())
    }
}
