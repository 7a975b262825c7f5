//! The order of gangs within a queue.

use std::cmp::Reverse;
use std::collections::BTreeMap;

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

/// Gangs in order.
type Line = BTreeMap<OrderKey, GangIdx>;

/// The gangs that wait, by queue: all of them, and those that are to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    queues: BTreeMap<QueueName, Line>,
    due: BTreeMap<QueueName, Line>,
    count: usize,
}

impl Waiting {
    /// A gang begins to wait; it is to be looked at.
    pub(crate) fn insert(&mut self, gang: &Gang, at: GangIdx) {
        let queue = self.queues.entry(gang.queue.clone()).or_default();
        if queue.insert(OrderKey::of(gang), at).is_none() {
            self.count = self.count.saturating_add(1);
        }
        self.make_due(gang, at);
    }

    /// A gang waits no longer. Says whether it did.
    pub(crate) fn remove(&mut self, gang: &Gang) -> bool {
        let key = OrderKey::of(gang);
        take(&mut self.due, &gang.queue, &key);
        let waited = take(&mut self.queues, &gang.queue, &key);
        if waited {
            self.count = self.count.saturating_sub(1);
        }
        waited
    }

    /// A gang is to be looked at, if it waits.
    pub(crate) fn make_due(&mut self, gang: &Gang, at: GangIdx) {
        let line = self.queues.get(&gang.queue);
        if line.is_none_or(|line| !line.contains_key(&OrderKey::of(gang))) {
            return;
        }
        self.due
            .entry(gang.queue.clone())
            .or_default()
            .insert(OrderKey::of(gang), at);
    }

    /// The queues in which someone is to be looked at.
    pub(crate) fn due_queues(&self) -> Vec<QueueName> {
        self.due.keys().cloned().collect()
    }

    /// The first of a queue that is to be looked at.
    pub(crate) fn next_due(&self, queue: &QueueName) -> Option<GangIdx> {
        self.due.get(queue)?.values().next().copied()
    }

    /// The same; it has been looked at now.
    pub(crate) fn pop_due(&mut self, queue: &QueueName) -> Option<GangIdx> {
        let line = self.due.get_mut(queue)?;
        let (_, at) = line.pop_first()?;
        if line.is_empty() {
            self.due.remove(queue);
        }
        Some(at)
    }

    /// The gangs of a queue, in order.
    pub(crate) fn line(&self, queue: &QueueName) -> impl Iterator<Item = GangIdx> {
        self.queues
            .get(queue)
            .into_iter()
            .flatten()
            .map(|(_, at)| *at)
    }

    /// How many gangs wait in each queue in which any does.
    pub(crate) fn by_queue(&self) -> impl Iterator<Item = (&QueueName, usize)> {
        self.queues.iter().map(|(queue, line)| (queue, line.len()))
    }

    /// How many gangs wait.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The place of a gang in its queue, from 1. Costs the gangs before it.
    pub(crate) fn position(&self, gang: &Gang) -> Option<usize> {
        let key = OrderKey::of(gang);
        let line = self.queues.get(&gang.queue)?;
        line.contains_key(&key).then(|| line.range(..=key).count())
    }
}

fn take(lines: &mut BTreeMap<QueueName, Line>, queue: &QueueName, key: &OrderKey) -> bool {
    let Some(line) = lines.get_mut(queue) else {
        return false;
    };
    let was = line.remove(key).is_some();
    if line.is_empty() {
        lines.remove(queue);
    }
    was
}
