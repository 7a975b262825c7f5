//! Gangs: what is placed whole or not at all.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::constraints::Constraints;
use crate::ids::{FlavorName, GangId, GroupName, NodeName, PodKey, QueueName, ResourceName};
use crate::limits::Draw;
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
    /// It is more than its job needs: it starts after all gangs that are not, keeps
    /// none of them waiting, preempts nobody, and is the first to make room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub surplus: bool,
    /// Of equal priorities the earlier goes first; then the name decides.
    pub submitted: Time,
    /// Not placed before this time: a back-off.
    pub not_before: Option<Time>,
    /// Nodes that none of its pods is placed on.
    pub excluded_nodes: Vec<NodeName>,
    /// Which of the nodes with room its pods go to.
    pub strategy: Strategy,
    /// How close its pods are to be to each other. None: anywhere.
    pub topology: Option<TopologyRequest>,
    /// It may be a victim of preemption. Where not, that holds only for what its
    /// queue has of its own: what is borrowed is given back.
    pub preemptible: bool,
    /// It may have others leave by its priority. Where not, it asks for surplus and for what its
    /// queue is owed alone.
    #[serde(default = "preempts", skip_serializing_if = "preempts_as_most")]
    pub preempts: bool,
    /// It has been preempted before: while it would borrow, it preempts nobody.
    pub preempted: bool,
    /// It is no victim before it has held its place for so long.
    pub min_runtime: Duration,
    /// How long it holds its place at most from when it gets it: something else than
    /// the engine ends it then. None: for ever.
    pub runtime: Option<Duration>,
    /// How long it is thought to hold it, by runs before it. May be exceeded: the
    /// engine then plans with a little more each time. None: unknown.
    pub predicted: Option<Duration>,
    /// How long its pods may take to stop once they are told to.
    pub grace: Duration,
    /// Limits beside the quota of its queue: all must have room. Those of a placed
    /// gang may change, and count from then on.
    pub draws: Vec<Draw>,
    /// Its task groups; their names are unique.
    pub groups: Vec<TaskGroup>,
}

/// Which of the nodes with room are taken.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Strategy {
    /// Those where the least is broken off what others could use.
    #[default]
    Pack,
    /// As many as there are, those with most free first.
    Spread,
}

/// Identical pods of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskGroup {
    /// Its name.
    pub name: GroupName,
    /// How many pods.
    pub count: u32,
    /// What one pod needs. The engine adds the pod itself: 1 of `pods`.
    pub request: Resources,
    /// The device that packing looks at first; ignored where the pod requests
    /// none of it. None: the first device that the pod requests, if any.
    pub device: Option<ResourceName>,
    /// Flavors that it accepts, the best first. Empty: those of its queue, in its order.
    pub flavors: Vec<FlavorName>,
    /// What one pod asks of its node besides room.
    pub constraints: Constraints,
    /// How close its pods are to be to each other, within what the gang asks.
    pub topology: Option<TopologyRequest>,
    /// Pods are called `<pod_prefix>-<number>`, in the gang's namespace.
    pub pod_prefix: String,
    /// Number of the first pod; the others follow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: u32,
}

/// Serde's word for what is left out.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(first: &u32) -> bool {
    *first == 0
}

/// Of snapshots from before it could be said.
const fn preempts() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn preempts_as_most(preempts: &bool) -> bool {
    *preempts
}

impl Gang {
    /// A gang with these groups, of priority 0, submitted at the epoch, that asks
    /// for nothing else.
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
            strategy: Strategy::default(),
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

    /// The name of one pod of a group, by its index among them: a function of gang,
    /// group and index, the same after every restart.
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
    /// So many pods with this request that ask for nothing else.
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
