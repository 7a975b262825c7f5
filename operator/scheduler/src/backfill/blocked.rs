//! Who waits for room, and who waits for quota: all that have been looked at and
//! are not to be looked at again yet.

use std::collections::BTreeMap;
use std::ops::Bound;

use smallvec::SmallVec;

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

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Capacity(Pool),
    Quota,
}

/// What a gang waits for, with the way in which it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    queue: QueueName,
    key: OrderKey,
    entries: SmallVec<[(Entry, usize); 1]>,
    /// In another of its ways it waits for nothing but what is kept for others: so
    /// it is looked at whenever that changes. Were nothing kept for it meanwhile,
    /// that alone would change it, for ever.
    pub(crate) is_kept_out: bool,
}

impl Blocked {
    /// A gang that waits for nothing (yet).
    pub(crate) fn new(queue: &QueueName, key: OrderKey) -> Self {
        Self {
            queue: queue.clone(),
            key,
            entries: SmallVec::new(),
            is_kept_out: false,
        }
    }

    /// It waits for that in this way, whose shape that is. Of ways that wait for the
    /// same the first that is told counts.
    pub(crate) fn add(&mut self, phase: Phase, way: usize, shape: &Shape) {
        let entry = match phase {
            Phase::Capacity => Entry::Capacity(Pool::of(shape)),
            Phase::Quota => Entry::Quota,
            Phase::Reserved => {
                self.is_kept_out = true;
                return;
            }
            Phase::Other => return,
        };
        if !self.entries.iter().any(|(e, _)| *e == entry) {
            self.entries.push((entry, way));
        }
    }
}

/// By queue, in order.
#[derive(Debug, Default)]
pub(crate) struct BlockedGangs {
    capacity: BTreeMap<QueueName, BTreeMap<Pool, BTreeMap<OrderKey, Candidate>>>,
    quota: BTreeMap<QueueName, BTreeMap<OrderKey, Candidate>>,
    gangs: BTreeMap<GangIdx, Blocked>,
}

impl BlockedGangs {
    /// What a gang waits for that has been looked at, if it was looked at before.
    pub(crate) fn get(&self, gang: GangIdx) -> Option<&Blocked> {
        self.gangs.get(&gang)
    }

    /// A gang has been looked at, and is not there.
    pub(crate) fn insert(&mut self, gang: GangIdx, blocked: Blocked) {
        if blocked.entries.is_empty() {
            return;
        }
        for (entry, way) in &blocked.entries {
            let queue = blocked.queue.clone();
            let line = match entry {
                Entry::Capacity(pool) => {
                    let pools = self.capacity.entry(queue).or_default();
                    pools.entry(pool.clone()).or_default()
                }
                Entry::Quota => self.quota.entry(queue).or_default(),
            };
            line.insert(blocked.key.clone(), Candidate { gang, way: *way });
        }
        self.gangs.insert(gang, blocked);
    }

    /// A gang waits no longer, or is to be looked at again. Says whether it was the first
    /// of its queue in a pool that waits for room: by the first, queues take turns.
    pub(crate) fn remove(&mut self, gang: GangIdx) -> bool {
        let Some(Blocked {
            queue,
            key,
            entries,
            ..
        }) = self.gangs.remove(&gang)
        else {
            return false;
        };
        let mut was_first = false;
        for (entry, _) in entries {
            match entry {
                Entry::Capacity(pool) => {
                    let first = self.next(&queue, &pool, None);
                    was_first |= first.is_some_and(|(first, _)| *first == key);
                    self.leave_pool(&queue, &pool, &key);
                }
                Entry::Quota => {
                    if let Some(line) = self.quota.get_mut(&queue) {
                        line.remove(&key);
                        if line.is_empty() {
                            self.quota.remove(&queue);
                        }
                    }
                }
            }
        }
        was_first
    }

    fn leave_pool(&mut self, queue: &QueueName, pool: &Pool, key: &OrderKey) {
        let Some(pools) = self.capacity.get_mut(queue) else {
            return;
        };
        if let Some(line) = pools.get_mut(pool) {
            line.remove(key);
            if line.is_empty() {
                pools.remove(pool);
            }
        }
        if pools.is_empty() {
            self.capacity.remove(queue);
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

    /// The first of those that wait for room in a pool, after another if there is one.
    pub(crate) fn next(
        &self,
        queue: &QueueName,
        pool: &Pool,
        after: Option<&OrderKey>,
    ) -> Option<(&OrderKey, Candidate)> {
        let line = self.capacity.get(queue)?.get(pool)?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (key, candidate) = line.range((from, Bound::Unbounded)).next()?;
        Some((key, *candidate))
    }

    /// The queues in which someone waits for quota.
    pub(crate) fn queues_for_quota(&self) -> impl Iterator<Item = &QueueName> {
        self.quota.keys()
    }

    /// The first of a queue that waits for quota.
    pub(crate) fn first_for_quota(&self, queue: &QueueName) -> Option<(&OrderKey, Candidate)> {
        let (key, candidate) = self.quota.get(queue)?.first_key_value()?;
        Some((key, *candidate))
    }
}
