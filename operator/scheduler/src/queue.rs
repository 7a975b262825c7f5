//! Queues: who may hold how much, and in which order it starts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::constraints::Toleration;
use crate::ids::{FlavorName, GroupName, QueueName, ResourceName};
use crate::node::Taint;
use crate::quota::{Quota, Weight};

/// A queue. The names and the arithmetic of its quota are Kueue's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: QueueName,
    /// The queue that it is below: both lend to each other what they leave idle.
    pub parent: Option<QueueName>,
    /// What its share is divided by when turns are taken.
    pub weight: Weight,
    /// Whether the gang at its head may be passed.
    pub order: QueueOrder,
    /// How much its gangs may hold together. Empty: what the nodes have, or, where
    /// queues of its tree name quotas, what those leave idle of them. Else of
    /// these resources so much each, and nothing of a resource that no group
    /// names; `pods` alone need not be named, and then has no limit.
    pub resource_groups: Vec<ResourceGroup>,
    /// Whom its gangs may preempt.
    pub preemption: Preemption,
    /// Whether its gangs may start before others that wait for room, where that
    /// does not make them later.
    pub backfill: bool,
    /// What backfill plans with where a gang's runtime is unknown. None: no end.
    pub default_runtime: Option<Duration>,
    /// The longest time for which a gang of it is safe from preemption. None: as
    /// long as the gang says.
    pub max_min_runtime: Option<Duration>,
    /// Whether it is stopped.
    pub stop: Stop,
}

/// Whom the gangs of a queue may preempt. The words are Kueue's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    /// Gangs of the same queue.
    pub within_queue: WithinQueue,
    /// Gangs of other queues that hold more than their quota, for what is within
    /// the queue's own.
    pub reclaim: Reclaim,
    /// The same for what the queue would borrow itself.
    pub borrow_within: BorrowWithin,
}

impl Preemption {
    /// Of it, what no priority of the asker is needed for: what its queue is owed.
    pub(crate) fn of_quota_alone(self) -> Self {
        Self {
            reclaim: self.reclaim,
            ..Self::default()
        }
    }
}

/// Which gangs of its own queue a gang may preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WithinQueue {
    /// None.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// Those, and of equal priority those that were submitted later.
    LowerOrNewerEqualPriority,
}

/// Which gangs of queues that borrow a gang may preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reclaim {
    /// None.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// Whichever.
    Any,
}

/// Which gangs of queues that borrow a gang may preempt that would borrow too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BorrowWithin {
    /// None.
    #[default]
    Never,
    /// Those of lower priority, and of at most `max_priority` where it is given.
    LowerPriority {
        /// The highest priority of a victim.
        max_priority: Option<i32>,
    },
}

/// Resources whose flavors are chosen together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceGroup {
    /// In the order in which they are tried.
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
    /// A queue that takes what the nodes have.
    #[must_use]
    pub fn new(name: QueueName) -> Self {
        Self {
            name,
            parent: None,
            weight: Weight::default(),
            order: QueueOrder::default(),
            resource_groups: Vec::new(),
            preemption: Preemption::default(),
            backfill: true,
            default_runtime: None,
            max_min_runtime: None,
            stop: Stop::None,
        }
    }

    /// The same with so much of some resources, on every node: one group, with
    /// the flavor [`FlavorName::default`].
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

/// Whether the gang at the head of a queue may be passed by others of it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum QueueOrder {
    /// Priority, then submission; who cannot start may be passed.
    #[default]
    Priority,
    /// The same order, and nothing passes the head, unless the head is in a back-off.
    StrictFifo,
}

/// Whether a queue is stopped.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Stop {
    /// It is not.
    #[default]
    None,
    /// Nothing of it is started; what runs goes on.
    Hold,
    /// Nothing of it is started, and what runs is preempted.
    HoldAndDrain,
}

/// A kind of nodes that quota is counted by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flavor {
    /// Its name.
    pub name: FlavorName,
    /// Labels that its nodes bear. None: every node.
    pub node_labels: BTreeMap<String, String>,
    /// Taints that its nodes bear: who tolerates them not, itself or by
    /// `tolerations`, gets none of it.
    pub node_taints: Vec<Taint>,
    /// Tolerations that pods get by using it.
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

/// How many gangs of a queue there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueCounts {
    /// They wait.
    pub pending: usize,
    /// They hold their place.
    pub admitted: usize,
}
