//! Gangs that wait for room or quota: the engine has tried them, and they are not due again.

use std::collections::BTreeMap;
use std::ops::Bound;

use smallvec::SmallVec;

use crate::ids::{NodeName, QueueName};
use crate::queueing::{OrderKey, WaitKind};
use crate::state::{GangIdx, GangShape, SignatureIdx};

/// The nodes that a gang may use, as the constraints that select them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodePool {
    signatures: Vec<SignatureIdx>,
    excluded: Vec<NodeName>,
}

impl NodePool {
    pub(crate) fn from_shape(shape: &GangShape) -> Self {
        let mut signatures: Vec<_> = shape.groups.iter().map(|g| g.signature).collect();
        signatures.sort_unstable();
        signatures.dedup();
        Self {
            signatures,
            excluded: shape.excluded.clone(),
        }
    }
}

/// A gang that waits for room, with one of its flavor assignments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadCandidate {
    pub(crate) gang: GangIdx,
    pub(crate) assignment: usize,
}

/// A resource that a gang waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BlockingResource {
    Capacity(NodePool),
    Quota,
}

/// The resources that a gang waits for, each with its flavor assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockedGang {
    queue: QueueName,
    key: OrderKey,
    entries: SmallVec<[(BlockingResource, usize); 1]>,
    /// With another flavor assignment the gang lacks only an amount that the engine reserves for
    /// another gang. So the engine tries it again whenever reservations change. If the gang lost
    /// its own reservation during this try, that would be a change too, and the tries would never
    /// end.
    pub(crate) waits_for_reservation: bool,
}

impl BlockedGang {
    /// Returns the entry of a gang without anything that it waits for.
    pub(crate) fn new(queue: &QueueName, key: OrderKey) -> Self {
        Self {
            queue: queue.clone(),
            key,
            entries: SmallVec::new(),
            waits_for_reservation: false,
        }
    }

    /// Adds the resource that the gang waits for with this flavor assignment, which has this shape.
    /// If several assignments wait for the same resource, the first one counts.
    pub(crate) fn add(&mut self, phase: WaitKind, way: usize, shape: &GangShape) {
        let entry = match phase {
            WaitKind::Capacity => BlockingResource::Capacity(NodePool::from_shape(shape)),
            WaitKind::Quota => BlockingResource::Quota,
            WaitKind::Reserved => {
                self.waits_for_reservation = true;
                return;
            }
            WaitKind::Other => return,
        };
        if !self.entries.iter().any(|(e, _)| *e == entry) {
            self.entries.push((entry, way));
        }
    }
}

/// Blocked gangs by queue, in order.
#[derive(Debug, Default)]
pub(crate) struct BlockedGangs {
    capacity: BTreeMap<QueueName, BTreeMap<NodePool, BTreeMap<OrderKey, HeadCandidate>>>,
    quota: BTreeMap<QueueName, BTreeMap<OrderKey, HeadCandidate>>,
    gangs: BTreeMap<GangIdx, BlockedGang>,
}

impl BlockedGangs {
    /// Returns the entry of a blocked gang.
    pub(crate) fn get(&self, gang: GangIdx) -> Option<&BlockedGang> {
        self.gangs.get(&gang)
    }

    /// Adds a gang that has no entry yet.
    pub(crate) fn insert(&mut self, gang: GangIdx, blocked: BlockedGang) {
        if blocked.entries.is_empty() {
            return;
        }
        for (entry, way) in &blocked.entries {
            let queue = blocked.queue.clone();
            let line = match entry {
                BlockingResource::Capacity(pool) => {
                    let pools = self.capacity.entry(queue).or_default();
                    pools.entry(pool.clone()).or_default()
                }
                BlockingResource::Quota => self.quota.entry(queue).or_default(),
            };
            line.insert(
                blocked.key.clone(),
                HeadCandidate {
                    gang,
                    assignment: *way,
                },
            );
        }
        self.gangs.insert(gang, blocked);
    }

    /// Removes a gang that is no longer pending or is due again. Returns true if it was the first
    /// gang of its queue that waits for room in a pool. The first gangs decide the order of turns.
    pub(crate) fn remove(&mut self, gang: GangIdx) -> bool {
        let Some(BlockedGang {
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
                BlockingResource::Capacity(pool) => {
                    let first = self.next_in_pool(&queue, &pool, None);
                    was_first |= first.is_some_and(|(first, _)| *first == key);
                    self.remove_from_pool(&queue, &pool, &key);
                }
                BlockingResource::Quota => {
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

    fn remove_from_pool(&mut self, queue: &QueueName, pool: &NodePool, key: &OrderKey) {
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

    /// Returns true if no gang waits for room.
    pub(crate) fn is_empty(&self) -> bool {
        self.capacity.is_empty()
    }

    /// Returns the queues in which a gang waits for room.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &QueueName> {
        self.capacity.keys()
    }

    /// Returns the gangs of a queue that wait for room, by pool.
    pub(crate) fn pools(
        &self,
        queue: &QueueName,
    ) -> impl Iterator<Item = (&NodePool, &BTreeMap<OrderKey, HeadCandidate>)> {
        self.capacity.get(queue).into_iter().flatten()
    }

    /// Returns the first gang that waits for room in a pool, or the next gang after `after`.
    pub(crate) fn next_in_pool(
        &self,
        queue: &QueueName,
        pool: &NodePool,
        after: Option<&OrderKey>,
    ) -> Option<(&OrderKey, HeadCandidate)> {
        let line = self.capacity.get(queue)?.get(pool)?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (key, candidate) = line.range((from, Bound::Unbounded)).next()?;
        Some((key, *candidate))
    }

    /// Returns the queues in which a gang waits for quota.
    pub(crate) fn quota_queues(&self) -> impl Iterator<Item = &QueueName> {
        self.quota.keys()
    }

    /// Returns the first gang of a queue that waits for quota.
    pub(crate) fn first_waiting_for_quota(
        &self,
        queue: &QueueName,
    ) -> Option<(&OrderKey, HeadCandidate)> {
        let (key, candidate) = self.quota.get(queue)?.first_key_value()?;
        Some((key, *candidate))
    }
}
