//! Who waits for room, and who waits for quota: all that have been looked at and
//! are not to be looked at again yet.

use std::collections::BTreeMap;

use crate::ids::{NodeName, QueueName};
use crate::queueing::{OrderKey, Phase};
use crate::state::{GangIdx, Shape, SignatureIdx};

/// What decides which nodes a gang may use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pool {
    signatures: Vec<SignatureIdx>,
    excluded: Vec<NodeName>,
}

impl Pool {
    pub(crate) fn of(shape: &Shape) -> Self {
        let mut signatures: Vec<_> = shape.groups.iter().map(|g| g.signature).collect();
        signatures.sort_unstable();
        signatures.dedup();
        Self {
            signatures,
            excluded: shape.excluded.clone(),
        }
    }
}

/// A gang that waits for room, in one of its ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) gang: GangIdx,
    pub(crate) way: usize,
}

#[derive(Debug)]
enum Entry {
    Capacity(Pool),
    Quota,
}

/// By queue, in order.
#[derive(Debug, Default)]
pub(crate) struct BlockedGangs {
    capacity: BTreeMap<QueueName, BTreeMap<Pool, BTreeMap<OrderKey, Candidate>>>,
    quota: BTreeMap<QueueName, BTreeMap<OrderKey, Candidate>>,
    entries: BTreeMap<GangIdx, (QueueName, OrderKey, Entry)>,
}

impl BlockedGangs {
    /// A gang has been looked at. `shape` is that of the way in question.
    pub(crate) fn insert(
        &mut self,
        queue: &QueueName,
        key: OrderKey,
        candidate: Candidate,
        (phase, shape): (Phase, &Shape),
    ) {
        self.remove(candidate.gang);
        let entry = match phase {
            Phase::Capacity => {
                let pool = Pool::of(shape);
                let pools = self.capacity.entry(queue.clone()).or_default();
                let line = pools.entry(pool.clone()).or_default();
                line.insert(key.clone(), candidate);
                Entry::Capacity(pool)
            }
            Phase::Quota => {
                let line = self.quota.entry(queue.clone()).or_default();
                line.insert(key.clone(), candidate);
                Entry::Quota
            }
            Phase::Other | Phase::Reserved => return,
        };
        let entry = (queue.clone(), key, entry);
        self.entries.insert(candidate.gang, entry);
    }

    /// A gang waits no longer, or is to be looked at again. Says whether it waited
    /// for room.
    pub(crate) fn remove(&mut self, gang: GangIdx) -> bool {
        let Some((queue, key, entry)) = self.entries.remove(&gang) else {
            return false;
        };
        match entry {
            Entry::Capacity(pool) => {
                if let Some(pools) = self.capacity.get_mut(&queue) {
                    if let Some(line) = pools.get_mut(&pool) {
                        line.remove(&key);
                    }
                    pools.retain(|_, line| !line.is_empty());
                    if pools.is_empty() {
                        self.capacity.remove(&queue);
                    }
                }
                true
            }
            Entry::Quota => {
                if let Some(line) = self.quota.get_mut(&queue) {
                    line.remove(&key);
                    if line.is_empty() {
                        self.quota.remove(&queue);
                    }
                }
                false
            }
        }
    }

    /// Nobody waits for room.
    pub(crate) fn is_empty(&self) -> bool {
        self.capacity.is_empty()
    }

    /// The queues in which someone waits for room.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &QueueName> {
        self.capacity.keys()
    }

    /// Who waits for room in a queue, by pool.
    pub(crate) fn pools(
        &self,
        queue: &QueueName,
    ) -> impl Iterator<Item = (&Pool, &BTreeMap<OrderKey, Candidate>)> {
        self.capacity.get(queue).into_iter().flatten()
    }

    /// The first of a queue that waits for quota.
    pub(crate) fn first_for_quota(&self, queue: &QueueName) -> Option<(&OrderKey, Candidate)> {
        let (key, candidate) = self.quota.get(queue)?.first_key_value()?;
        Some((key, *candidate))
    }
}
