//! Queues: how much their gangs may hold, and in which order they start.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::constraints::Toleration;
use crate::ids::{FlavorName, GroupName, QueueName, ResourceName};
use crate::node::Taint;
use crate::provisioning::{FlavorGrowth, ProvisioningPolicy};
use crate::quota::{Quota, Weight};

/// A queue. Names and quota arithmetic are Kueue's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: QueueName,
    /// The parent queue. Siblings lend each other the quota that they leave idle.
    pub parent: Option<QueueName>,
    /// The fair-share weight. The order of turns divides the queue's share by it.
    pub weight: Weight,
    /// The priority among its siblings. Among siblings that stay within their quota, the one with the
    /// highest priority has the next turn, whatever their shares.
    #[serde(default)]
    pub priority: i32,
    /// The order in which its gangs start. It also decides if they may pass the head of the queue.
    pub order: QueueOrder,
    /// How much its gangs may hold together, by resource. Empty: all that the nodes have or, if
    /// other queues of its tree have quotas, the quota that those leave idle. Otherwise a resource
    /// that no group names has a quota of 0, except that `pods` is then unlimited.
    pub resource_groups: Vec<ResourceGroup>,
    /// When the engine tries the next flavor although it could use one.
    #[serde(default)]
    pub flavor_policy: FlavorPolicy,
    /// The gangs that gangs of this queue may preempt.
    pub preemption: PreemptionPolicy,
    /// True if its gangs may start ahead of gangs that wait for room, if that does not delay the
    /// waiting gangs.
    pub backfill: bool,
    /// The runtime that backfill assumes for a gang without its own. None: no end.
    pub default_runtime: Option<Duration>,
    /// The longest time for which a gang of the queue is safe from preemption. None: the gang's own
    /// minimum runtime counts.
    pub max_min_runtime: Option<Duration>,
    /// Stop state of the queue.
    pub stop: QueueStop,
    /// The gangs for which nodes may be provisioned.
    #[serde(default)]
    pub provisioning: ProvisioningPolicy,
}

/// When the engine tries the next flavor assignment although it could use one: Kueue's
/// `flavorFungibility`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlavorPolicy {
    /// True if a gang borrows only if no flavor assignment has room within its queue's quota.
    pub avoids_borrowing: bool,
    /// True if a gang preempts in the first flavor assignment in which it may, although it could
    /// start without preemption in a later one.
    pub prefers_preemption: bool,
}

/// The gangs that gangs of a queue may preempt. The field names are Kueue's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreemptionPolicy {
    /// Gangs of the same queue.
    pub within_queue: WithinQueuePolicy,
    /// Gangs of other queues that hold more than their quota, while the preemptor stays within its
    /// own queue's quota.
    pub reclaim: ReclaimPolicy,
    /// Gangs of other queues that hold more than their quota, if the preemptor's queue would borrow
    /// too.
    pub borrow_within: BorrowWithinPolicy,
}

impl PreemptionPolicy {
    /// Returns the part that does not depend on the preemptor's priority: the reclaim of quota owed
    /// to its queue.
    pub(crate) fn reclaim_only(self) -> Self {
        Self {
            reclaim: self.reclaim,
            ..Self::default()
        }
    }

    /// Returns the part that a preempted gang keeps while it would borrow: a queue with less than
    /// its share takes from queues with more.
    pub(crate) fn fair_share_only(self) -> Self {
        let mut policy = Self::default();
        if self.shares_fairly() {
            policy.borrow_within = self.borrow_within;
        }
        policy
    }

    /// Returns true if gangs may take borrowed quota from queues with a larger share.
    pub(crate) const fn shares_fairly(self) -> bool {
        matches!(self.borrow_within, BorrowWithinPolicy::FairShare(_))
    }
}

/// The gangs of its own queue that a gang may preempt.
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

/// The gangs of borrowing queues that a gang may preempt.
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

/// The gangs of borrowing queues that a gang may preempt if its own queue would borrow too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BorrowWithinPolicy {
    /// None.
    #[default]
    Never,
    /// Gangs of lower priority, and of at most `max_priority` if it is set.
    LowerPriority {
        /// The highest priority of a victim.
        max_priority: Option<i32>,
    },
    /// Gangs of queues whose [`FairShare`](crate::FairShare) of borrowed quota is larger than the
    /// share that the preemptor's queue would have.
    FairShare(FairShareVictims),
}

impl BorrowWithinPolicy {
    /// Returns true if a gang of this priority may be a victim by its priority.
    pub(crate) fn allows(self, priority: i32, preemptor: i32) -> bool {
        match self {
            Self::LowerPriority { max_priority } => {
                priority < preemptor && max_priority.is_none_or(|most| priority <= most)
            }
            Self::Never | Self::FairShare(_) => false,
        }
    }
}

/// The gangs that may be victims of a queue with less than its fair share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FairShareVictims {
    /// Gangs of lower priority than the preemptor.
    LowerPriority,
    /// Gangs of lower or equal priority.
    LowerOrEqualPriority,
    /// Any gang.
    Any,
}

impl FairShareVictims {
    /// Returns true if a gang of this priority may be a victim of a gang of priority `preemptor`.
    #[must_use]
    pub const fn includes(self, priority: i32, preemptor: i32) -> bool {
        match self {
            Self::LowerPriority => priority < preemptor,
            Self::LowerOrEqualPriority => priority <= preemptor,
            Self::Any => true,
        }
    }
}

/// Resources for which the engine chooses one flavor together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceGroup {
    /// The flavors, in the order in which the engine tries them.
    pub flavors: Vec<FlavorQuotas>,
}

/// Quota of one flavor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlavorQuotas {
    /// The flavor.
    pub flavor: FlavorName,
    /// Quota by resource, in base units. All flavors of a group have the same resources.
    pub quotas: BTreeMap<ResourceName, Quota>,
}

impl Queue {
    /// Returns a queue without quotas. It may use all that the nodes have.
    #[must_use]
    pub fn new(name: QueueName) -> Self {
        Self {
            name,
            parent: None,
            weight: Weight::default(),
            priority: 0,
            order: QueueOrder::default(),
            resource_groups: Vec::new(),
            flavor_policy: FlavorPolicy::default(),
            preemption: PreemptionPolicy::default(),
            backfill: true,
            default_runtime: None,
            max_min_runtime: None,
            stop: QueueStop::None,
            provisioning: ProvisioningPolicy::default(),
        }
    }

    /// Returns the queue with these quotas on every node: one group, with the flavor
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
    /// Priority, then submission time. Later gangs may pass a gang that cannot start.
    #[default]
    Priority,
    /// The same order, but no gang passes the head unless the head is backing off.
    StrictFifo,
}

/// The stop state of a queue.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum QueueStop {
    /// The queue is not stopped.
    #[default]
    None,
    /// No gang of the queue starts. Running gangs continue.
    Hold,
    /// No gang of the queue starts, and the engine evicts running gangs.
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
    /// The new nodes that it may get. None: it has only the nodes that exist.
    #[serde(default)]
    pub growth: Option<FlavorGrowth>,
}

impl Flavor {
    /// Returns a flavor of all nodes, without taints and new nodes.
    #[must_use]
    pub const fn new(name: FlavorName) -> Self {
        Self {
            name,
            node_labels: BTreeMap::new(),
            node_taints: Vec::new(),
            tolerations: Vec::new(),
            growth: None,
        }
    }
}

/// The flavors to which the engine charges one task group of a placed gang.
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
