//! The order of gangs within a queue.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::gang::Gang;
use crate::ids::{GangId, QueueName};
use crate::state::GangIdx;
use crate::time::Time;

/// The key by which gangs are ordered: surplus after all other gangs, then by priority, submission
/// time and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderKey {
    surplus: bool,
    priority: Reverse<i32>,
    submitted: Time,
    id: GangId,
}

impl OrderKey {
    pub(crate) fn for_gang(gang: &Gang) -> Self {
        Self {
            surplus: gang.surplus,
            priority: Reverse(gang.priority),
            submitted: gang.submitted,
            id: gang.id.clone(),
        }
    }

    /// Returns the gang that has this key.
    pub(crate) fn into_id(self) -> GangId {
        self.id
    }

    /// Returns the key that separates gangs from surplus in the order.
    fn first_surplus() -> Self {
        Self {
            surplus: true,
            priority: Reverse(i32::MAX),
            submitted: Time::from_millis(i64::MIN),
            id: GangId::new(""),
        }
    }
}

/// The class of a pending gang. The engine tries surplus only after all other due gangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GangClass {
    Gangs,
    Surplus,
}

impl GangClass {
    fn for_gang(gang: &Gang) -> Self {
        match gang.surplus {
            true => Self::Surplus,
            false => Self::Gangs,
        }
    }
}

/// Gangs in order.
type OrderedGangs = BTreeMap<OrderKey, GangIdx>;

/// Pending gangs by queue: all of them, and those that are due. The engine tries due gangs.
#[derive(Debug, Default)]
pub(crate) struct PendingGangs {
    queues: BTreeMap<QueueName, OrderedGangs>,
    due: BTreeMap<QueueName, OrderedGangs>,
    /// Due surplus.
    due_surplus: BTreeMap<QueueName, OrderedGangs>,
    count: usize,
}

impl PendingGangs {
    /// Adds a pending gang and makes it due.
    pub(crate) fn insert(&mut self, gang: &Gang, at: GangIdx) {
        let queue = self.queues.entry(gang.queue.clone()).or_default();
        if queue.insert(OrderKey::for_gang(gang), at).is_none() {
            self.count = self.count.saturating_add(1);
        }
        self.make_due(gang, at);
    }

    /// Removes a gang that is no longer pending. Returns true if it was pending.
    pub(crate) fn remove(&mut self, gang: &Gang) -> bool {
        let key = OrderKey::for_gang(gang);
        remove_gang(self.due_mut(GangClass::for_gang(gang)), &gang.queue, &key);
        let waited = remove_gang(&mut self.queues, &gang.queue, &key);
        if waited {
            self.count = self.count.saturating_sub(1);
        }
        waited
    }

    /// Makes a gang due, if it is pending.
    pub(crate) fn make_due(&mut self, gang: &Gang, at: GangIdx) {
        let line = self.queues.get(&gang.queue);
        if line.is_none_or(|line| !line.contains_key(&OrderKey::for_gang(gang))) {
            return;
        }
        self.due_mut(GangClass::for_gang(gang))
            .entry(gang.queue.clone())
            .or_default()
            .insert(OrderKey::for_gang(gang), at);
    }

    fn due(&self, class: GangClass) -> &BTreeMap<QueueName, OrderedGangs> {
        match class {
            GangClass::Gangs => &self.due,
            GangClass::Surplus => &self.due_surplus,
        }
    }

    fn due_mut(&mut self, class: GangClass) -> &mut BTreeMap<QueueName, OrderedGangs> {
        match class {
            GangClass::Gangs => &mut self.due,
            GangClass::Surplus => &mut self.due_surplus,
        }
    }

    /// Returns the queues in which a gang is due.
    pub(crate) fn due_queues(&self, class: GangClass) -> Vec<QueueName> {
        self.due(class).keys().cloned().collect()
    }

    /// Returns the first due gang of a queue.
    pub(crate) fn next_due(&self, class: GangClass, queue: &QueueName) -> Option<GangIdx> {
        self.due(class).get(queue)?.values().next().copied()
    }

    /// Removes the first due gang of a queue from the due gangs, and returns it.
    pub(crate) fn pop_due(&mut self, class: GangClass, queue: &QueueName) -> Option<GangIdx> {
        let due = self.due_mut(class);
        let line = due.get_mut(queue)?;
        let (_, at) = line.pop_first()?;
        if line.is_empty() {
            due.remove(queue);
        }
        Some(at)
    }

    /// Returns the due gangs of a queue, in order.
    pub(crate) fn due_gangs(&self, class: GangClass, queue: &QueueName) -> Vec<GangIdx> {
        let line = self.due(class).get(queue);
        line.into_iter()
            .flat_map(OrderedGangs::values)
            .copied()
            .collect()
    }

    /// Removes a gang from the due gangs after the engine has tried it.
    pub(crate) fn clear_due(&mut self, gang: &Gang) {
        remove_gang(
            self.due_mut(GangClass::for_gang(gang)),
            &gang.queue,
            &OrderKey::for_gang(gang),
        );
    }

    /// Returns the gangs of a queue, in order.
    pub(crate) fn gangs_in_order(&self, queue: &QueueName) -> impl Iterator<Item = GangIdx> {
        self.queues
            .get(queue)
            .into_iter()
            .flatten()
            .map(|(_, at)| *at)
    }

    /// Returns the number of pending gangs of each queue that has any, without surplus.
    pub(crate) fn counts_by_queue(&self) -> impl Iterator<Item = (&QueueName, usize)> {
        let count = |line: &OrderedGangs| {
            let surplus = line.range(OrderKey::first_surplus()..).count();
            line.len().saturating_sub(surplus)
        };
        let lines = self.queues.iter();
        lines
            .map(move |(queue, line)| (queue, count(line)))
            .filter(|(_, gangs)| *gangs > 0)
    }

    /// Returns the number of pending gangs, including surplus.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the position of a gang in its queue, from 1. The time is linear in the number of
    /// gangs before it.
    pub(crate) fn position(&self, gang: &Gang) -> Option<usize> {
        let key = OrderKey::for_gang(gang);
        let line = self.queues.get(&gang.queue)?;
        line.contains_key(&key).then(|| line.range(..=key).count())
    }
}

fn remove_gang(
    lines: &mut BTreeMap<QueueName, OrderedGangs>,
    queue: &QueueName,
    key: &OrderKey,
) -> bool {
    let Some(line) = lines.get_mut(queue) else {
        return false;
    };
    let was = line.remove(key).is_some();
    if line.is_empty() {
        lines.remove(queue);
    }
    was
}
