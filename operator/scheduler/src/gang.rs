//! Gangs: groups of pods that are placed together or not at all.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::constraints::Constraints;
use crate::ids::{FlavorName, GangId, GroupName, NodeName, PodKey, QueueName, ResourceName};
use crate::limits::LimitDraw;
use crate::resources::Resources;
use crate::time::Time;
use crate::topology::TopologyRequest;

/// A gang. All of its pods are placed, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gang {
    /// Its name.
    pub id: GangId,
    /// The queue that it waits in and whose quota it is charged to.
    pub queue: QueueName,
    /// Higher goes first.
    pub priority: i32,
    /// More than its job needs. Surplus starts after all other gangs, delays and preempts none of
    /// them, and is the first to make room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub surplus: bool,
    /// Among equal priorities the earlier submission goes first, then the smaller name.
    pub submitted: Time,
    /// Not placed before this time: a back-off.
    pub not_before: Option<Time>,
    /// Nodes that none of its pods is placed on.
    pub excluded_nodes: Vec<NodeName>,
    /// Which of the nodes with room its pods go to.
    pub strategy: PlacementStrategy,
    /// How close its pods are to be to each other. None: anywhere.
    pub topology: Option<TopologyRequest>,
    /// The gang may be a victim of preemption. If false, only its queue's own quota is safe: what
    /// the queue borrows is given back.
    pub preemptible: bool,
    /// The gang may preempt other gangs because of its priority. If false, it preempts only surplus
    /// and gangs that hold what its queue is owed.
    #[serde(default = "preempts", skip_serializing_if = "preempts_as_most")]
    pub preempts: bool,
    /// The gang has been preempted before: it preempts no gang while it would borrow.
    pub preempted: bool,
    /// The gang cannot be a victim before it has been placed for this long.
    pub min_runtime: Duration,
    /// Longest time that it stays placed, from when it is placed; the caller ends it then, not the
    /// engine. None: no limit.
    pub runtime: Option<Duration>,
    /// Predicted runtime, from earlier runs. The gang may exceed it: the engine then plans with a
    /// little more each time. None: unknown.
    pub predicted: Option<Duration>,
    /// How long its pods may take to stop after they are told to.
    pub grace: Duration,
    /// Limits outside its queue's quota: all of them must have room. They may change while the gang
    /// is placed, and count from then on.
    pub draws: Vec<LimitDraw>,
    /// Its task groups; their names are unique.
    pub groups: Vec<TaskGroup>,
}

/// Which nodes are preferred among those with room.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum PlacementStrategy {
    /// Nodes where the gang breaks off least of what other gangs could use.
    #[default]
    Pack,
    /// As many nodes as possible, those with most free capacity first.
    Spread,
}

/// Identical pods of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskGroup {
    /// Its name.
    pub name: GroupName,
    /// How many pods.
    pub count: u32,
    /// Resources that one pod requests. The engine adds 1 of `pods` for the pod itself.
    pub request: Resources,
    /// The device that packing looks at first; ignored if the pod does not request it. None: the
    /// first device that the pod requests, if any.
    pub device: Option<ResourceName>,
    /// Flavors that it accepts, the best first. Empty: those of its queue, in its order.
    pub flavors: Vec<FlavorName>,
    /// Constraints on the node of each pod, besides resources.
    pub constraints: Constraints,
    /// How close its pods are to be to each other, within what the gang asks.
    pub topology: Option<TopologyRequest>,
    /// Pods are called `<pod_prefix>-<number>`, in the gang's namespace.
    pub pod_prefix: String,
    /// Number of the first pod; the others follow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: u32,
}

/// Tells serde which values to leave out.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(first: &u32) -> bool {
    *first == 0
}

/// The default for snapshots that are older than the field.
const fn preempts() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn preempts_as_most(preempts: &bool) -> bool {
    *preempts
}

impl Gang {
    /// A gang with these groups, priority 0 and no constraints, submitted at the epoch.
    #[must_use]
    pub fn new(id: GangId, queue: QueueName, groups: Vec<TaskGroup>) -> Self {
        Self {
            id,
            queue,
            priority: 0,
            surplus: false,
            submitted: Time::default(),
            not_before: None,
            excluded_nodes: Vec::new(),
            strategy: PlacementStrategy::default(),
            topology: None,
            preemptible: true,
            preempts: true,
            preempted: false,
            min_runtime: Duration::ZERO,
            runtime: None,
            predicted: None,
            grace: Duration::ZERO,
            draws: Vec::new(),
            groups,
        }
    }

    /// The name of one pod of a group, by its index: a function of gang, group and index, the same
    /// after every restart.
    #[must_use]
    pub fn pod_key(&self, group: &TaskGroup, index: u32) -> PodKey {
        let (namespace, prefix) = (self.id.namespace(), &group.pod_prefix);
        let number = group.first.saturating_add(index);
        PodKey::new(format!("{namespace}/{prefix}-{number}"))
    }

    /// Pods of all groups.
    #[must_use]
    pub fn pod_count(&self) -> u64 {
        self.groups
            .iter()
            .fold(0, |sum, group| sum.saturating_add(u64::from(group.count)))
    }
}

impl TaskGroup {
    /// A group of this many pods with this request and no constraints.
    #[must_use]
    pub fn new(name: GroupName, count: u32, request: Resources, pod_prefix: String) -> Self {
        Self {
            name,
            count,
            request,
            device: None,
            flavors: Vec::new(),
            constraints: Constraints::default(),
            topology: None,
            pod_prefix,
            first: 0,
        }
    }
}
