//! Queues: how much their gangs may hold, and in which order they start.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::constraints::Toleration;
use crate::ids::{FlavorName, GroupName, QueueName, ResourceName};
use crate::node::Taint;
use crate::quota::{Quota, Weight};

/// A queue. Names and quota arithmetic are Kueue's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: QueueName,
    /// The parent queue: siblings lend each other what they leave idle.
    pub parent: Option<QueueName>,
    /// Fair-share weight: the queue's share is divided by it to decide whose turn it is.
    pub weight: Weight,
    /// The order in which its gangs start, and if they may pass the head of the queue.
    pub order: QueueOrder,
    /// How much its gangs may hold together, by resource. Empty: what the nodes have, or, if other
    /// queues of its tree have quotas, what those leave idle. Otherwise a resource that no group
    /// names has a quota of 0; only `pods` may be left out, and is then unlimited.
    pub resource_groups: Vec<ResourceGroup>,
    /// The gangs that gangs of this queue may preempt.
    pub preemption: PreemptionPolicy,
    /// True if its gangs may start ahead of gangs that wait for room, as long as that does not
    /// delay those.
    pub backfill: bool,
    /// The runtime that backfill assumes for a gang with none of its own. None: no end.
    pub default_runtime: Option<Duration>,
    /// The longest time for which a gang of the queue is safe from preemption. None: the gang's own
    /// minimum runtime counts.
    pub max_min_runtime: Option<Duration>,
    /// Stop state of the queue.
    pub stop: QueueStop,
}

/// The gangs that gangs of a queue may preempt. The field names are Kueue's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreemptionPolicy {
    /// Gangs of the same queue.
    pub within_queue: WithinQueuePolicy,
    /// Gangs of other queues that hold more than their quota, while the preemptor stays within its
    /// own queue's quota.
    pub reclaim: ReclaimPolicy,
    /// The same if the preemptor's queue would borrow too.
    pub borrow_within: BorrowWithinPolicy,
}

impl PreemptionPolicy {
    /// The part that does not depend on the preemptor's priority: reclaiming what its queue is
    /// owed.
    pub(crate) fn reclaim_only(self) -> Self {
        Self {
            reclaim: self.reclaim,
            ..Self::default()
        }
    }
}

/// Which gangs of its own queue a gang may preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WithinQueuePolicy {
    /// None.
    #[default]
    Never,
    /// Gangs of lower priority.
    LowerPriority,
    /// Gangs of lower priority, and later submissions of equal priority.
    LowerOrNewerEqualPriority,
}

/// Which gangs of borrowing queues a gang may preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReclaimPolicy {
    /// None.
    #[default]
    Never,
    /// Gangs of lower priority.
    LowerPriority,
    /// Any gang.
    Any,
}

/// Which gangs of borrowing queues a gang may preempt whose own queue would borrow too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BorrowWithinPolicy {
    /// None.
    #[default]
    Never,
    /// Gangs of lower priority, and of at most `max_priority` if it is given.
    LowerPriority {
        /// The highest priority of a victim.
        max_priority: Option<i32>,
    },
}

/// Resources whose flavors are chosen together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceGroup {
    /// The flavors, in the order in which they are tried.
    pub flavors: Vec<FlavorQuotas>,
}

/// Quota of one flavor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlavorQuotas {
    /// The flavor.
    pub flavor: FlavorName,
    /// Quota by resource, in base units; the same resources for every flavor of a group.
    pub quotas: BTreeMap<ResourceName, Quota>,
}

impl Queue {
    /// A queue without quotas: it may use what the nodes have.
    #[must_use]
    pub fn new(name: QueueName) -> Self {
        Self {
            name,
            parent: None,
            weight: Weight::default(),
            order: QueueOrder::default(),
            resource_groups: Vec::new(),
            preemption: PreemptionPolicy::default(),
            backfill: true,
            default_runtime: None,
            max_min_runtime: None,
            stop: QueueStop::None,
        }
    }

    /// The queue with these quotas on every node: one group, with the flavor
    /// [`FlavorName::default`].
    #[must_use]
    pub fn with_quotas(mut self, quotas: impl IntoIterator<Item = (ResourceName, Quota)>) -> Self {
        self.resource_groups.push(ResourceGroup {
            flavors: vec![FlavorQuotas {
                flavor: FlavorName::default(),
                quotas: quotas.into_iter().collect(),
            }],
        });
        self
    }
}

/// The order in which the gangs of a queue start.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum QueueOrder {
    /// Priority, then submission time; later gangs may pass a gang that cannot start.
    #[default]
    Priority,
    /// The same order, but no gang passes the head unless the head is backing off.
    StrictFifo,
}

/// If a queue is stopped, and how.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum QueueStop {
    /// The queue is not stopped.
    #[default]
    None,
    /// No gang of the queue starts; running gangs go on.
    Hold,
    /// No gang of the queue starts, and running gangs are evicted.
    HoldAndDrain,
}

/// A kind of nodes that has a quota of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flavor {
    /// Its name.
    pub name: FlavorName,
    /// Labels that its nodes have. Empty: every node.
    pub node_labels: BTreeMap<String, String>,
    /// Taints that its nodes have. A pod uses the flavor only if it tolerates them, by its own
    /// tolerations or by `tolerations`.
    pub node_taints: Vec<Taint>,
    /// Tolerations that pods get when they use the flavor.
    pub tolerations: Vec<Toleration>,
}

/// The flavors that one task group of a placed gang is charged to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFlavors {
    /// The task group.
    pub group: GroupName,
    /// The flavor of each resource.
    pub flavors: BTreeMap<ResourceName, FlavorName>,
}

/// Numbers of gangs of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueCounts {
    /// Pending gangs.
    pub pending: usize,
    /// Placed gangs.
    pub admitted: usize,
}
