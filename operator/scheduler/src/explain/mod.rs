//! Why a gang waits: one reason, with numbers.

mod amount;
mod capacity;
mod exclusions;
mod survey;
mod text;

pub(crate) use capacity::{Question, explain};

use std::sync::Arc;

use crate::ids::{FlavorName, GangId, GroupName, QueueName, ResourceName};
use crate::time::Time;

/// Why a gang waits. `Display` is the sentence that users read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Certificate {
    /// The reason.
    pub reason: WaitReason,
    /// Its numbers. Shared, since many equal gangs wait for the same.
    pub detail: Arc<Detail>,
}

impl From<Detail> for Certificate {
    fn from(detail: Detail) -> Self {
        Self {
            reason: detail.reason(),
            detail: Arc::new(detail),
        }
    }
}

/// The closed list of reasons, in the order in which they are looked for: a
/// gang that has several waits for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitReason {
    /// Its queue does not exist.
    QueueNotFound,
    /// Its queue is stopped.
    QueueStopped,
    /// Its queue is there and cannot be used as it is configured.
    QueueMisconfigured,
    /// A try failed, and the next waits for a while.
    BackingOff,
    /// Its queue starts its gangs strictly in order, and another is at its head.
    BehindHead,
    /// None of the queue's flavors can be used by it.
    FlavorNotFound,
    /// It asks for more than the queue's whole quota, or for what the queue does not offer.
    ExceedsQuota,
    /// The queue's quota is held by others.
    QuotaExceeded,
    /// No node meets its constraints.
    NoMatchingNodes,
    /// Nodes that failed it are left out for a while, and the others do not suffice.
    NodesAvoided,
    /// It would not fit even if all matching nodes were empty.
    ExceedsCluster,
    /// The matching nodes have too little free in total.
    InsufficientCapacity,
    /// Enough is free in total, but not together where it is needed.
    Fragmented,
}

impl WaitReason {
    /// The word itself, as conditions, events and metrics bear it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueNotFound => "QueueNotFound",
            Self::QueueStopped => "QueueStopped",
            Self::QueueMisconfigured => "QueueMisconfigured",
            Self::BackingOff => "BackingOff",
            Self::BehindHead => "BehindHead",
            Self::FlavorNotFound => "FlavorNotFound",
            Self::ExceedsQuota => "ExceedsQuota",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::NoMatchingNodes => "NoMatchingNodes",
            Self::NodesAvoided => "NodesAvoided",
            Self::ExceedsCluster => "ExceedsCluster",
            Self::InsufficientCapacity => "InsufficientCapacity",
            Self::Fragmented => "Fragmented",
        }
    }
}

impl std::fmt::Display for WaitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The numbers of a reason. Amounts are in base units (see [`crate::Resources`]).
/// `group` names the task group where the gang has several and one of them is
/// what does not fit; else it is the gang as a whole. *Matching* nodes meet the
/// group's constraints and advertise all that one pod requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// [`WaitReason::QueueNotFound`].
    QueueNotFound {
        /// The queue that is not there.
        queue: QueueName,
    },
    /// [`WaitReason::QueueStopped`].
    QueueStopped {
        /// The queue.
        queue: QueueName,
    },
    /// [`WaitReason::QueueMisconfigured`].
    QueueMisconfigured {
        /// The queue.
        queue: QueueName,
        /// What is wrong with it: what it is or does, without a subject.
        fault: String,
    },
    /// [`WaitReason::BehindHead`].
    BehindHead {
        /// The queue.
        queue: QueueName,
        /// The gang at its head.
        head: GangId,
    },
    /// [`WaitReason::FlavorNotFound`].
    FlavorNotFound {
        /// The queue.
        queue: QueueName,
        /// The task group, where there are several.
        group: Option<GroupName>,
        /// Flavors that it might use: not defined, or with taints that it does not tolerate.
        flavors: Vec<FlavorName>,
    },
    /// [`WaitReason::BackingOff`].
    BackingOff {
        /// When it is tried again.
        until: Time,
    },
    /// [`WaitReason::ExceedsQuota`]: the queue does not offer a resource.
    NotOffered {
        /// The queue.
        queue: QueueName,
        /// The resource.
        resource: ResourceName,
        /// What the gang needs of it.
        needs: i128,
        /// What the queue offers.
        offers: Vec<ResourceName>,
    },
    /// [`WaitReason::ExceedsQuota`]: more than there is when nobody else holds any.
    ExceedsQuota {
        /// The queue.
        queue: QueueName,
        /// The flavor, where it is not the default one.
        flavor: Option<FlavorName>,
        /// The resource.
        resource: ResourceName,
        /// What the gang needs of it.
        needs: i128,
        /// The most that the queue could ever be given.
        most: i128,
    },
    /// [`WaitReason::QuotaExceeded`].
    QuotaExceeded {
        /// The queue whose limit stands in the way: the gang's, or one above it.
        queue: QueueName,
        /// It is that queue's borrowing limit; else its quota.
        borrowing_limit: bool,
        /// The flavor, where it is not the default one.
        flavor: Option<FlavorName>,
        /// The resource that lacks most, measured by its quota.
        resource: ResourceName,
        /// What the gang needs of it.
        needs: i128,
        /// The limit.
        most: i128,
        /// What is held of it.
        used: i128,
        /// What would have to be given back.
        missing: i128,
        /// How many gangs of the gang's own queue hold some.
        holders: u32,
        /// Who of them holds most, at most three.
        largest: Vec<(GangId, i128)>,
        /// Other queues that hold more than their quota, with how much more: those
        /// that borrow most, at most three.
        borrowers: Vec<(QueueName, i128)>,
    },
    /// [`WaitReason::NodesAvoided`].
    NodesAvoided {
        /// How many nodes are left out; with them it might fit.
        avoided: u32,
    },
    /// [`WaitReason::NoMatchingNodes`].
    NoMatchingNodes {
        /// The task group.
        group: Option<GroupName>,
        /// What keeps it off each of the nodes.
        exclusions: Exclusions,
    },
    /// [`WaitReason::ExceedsCluster`]: one pod is larger than every node.
    PodTooLarge {
        /// The task group.
        group: Option<GroupName>,
        /// The resource. None: no one resource, but no node has all of them together.
        resource: Option<ResourceName>,
        /// What one pod needs of it.
        needs: i128,
        /// What the largest matching node has of it.
        largest: i128,
        /// Matching nodes.
        nodes: u32,
        /// Nodes that would match, if they advertised the resource that they are labelled with.
        silent: Option<Silent>,
    },
    /// [`WaitReason::ExceedsCluster`]: together the nodes have too little.
    ClusterTooSmall {
        /// The task group.
        group: Option<GroupName>,
        /// The resource.
        resource: ResourceName,
        /// What is needed of it.
        needs: i128,
        /// What the matching nodes have when they are empty.
        capacity: i128,
        /// Matching nodes.
        nodes: u32,
        /// Nodes that would match, if they advertised the resource that they are labelled with.
        silent: Option<Silent>,
    },
    /// [`WaitReason::ExceedsCluster`]: enough in total, but not in pieces of that size.
    TooFewPlaces {
        /// The task group.
        group: Option<GroupName>,
        /// Pods.
        pods: u64,
        /// How many of them empty nodes would hold. None: each task group would
        /// fit, but not all of them together.
        room: Option<u64>,
        /// Matching nodes.
        nodes: u32,
        /// Nodes that would match, if they advertised the resource that they are labelled with.
        silent: Option<Silent>,
    },
    /// [`WaitReason::InsufficientCapacity`].
    InsufficientCapacity {
        /// The task group.
        group: Option<GroupName>,
        /// The resource.
        resource: ResourceName,
        /// What is needed of it.
        needs: i128,
        /// What is free of it on matching nodes.
        free: i128,
        /// What is missing.
        missing: i128,
        /// Matching nodes.
        nodes: u32,
        /// What gangs hold of it on matching nodes.
        held_by_gangs: i128,
        /// What other pods hold of it there, terminating pods of gangs among them.
        held_by_others: i128,
    },
    /// [`WaitReason::Fragmented`]: scattered over too many nodes.
    Scattered {
        /// The task group.
        group: Option<GroupName>,
        /// The resource.
        resource: ResourceName,
        /// What one pod needs of it.
        needs: i128,
        /// Pods.
        pods: u64,
        /// How many of them there is room for.
        room: u64,
        /// What is free of it on matching nodes.
        free: i128,
        /// Matching nodes that have some of it free.
        nodes: u32,
        /// The most that is free on one of them.
        most: i128,
    },
    /// [`WaitReason::Fragmented`]: each resource is free, but not on the same nodes.
    Apart {
        /// The task group.
        group: Option<GroupName>,
        /// The resource that packing looks at first.
        resource: ResourceName,
        /// What one pod needs of it.
        needs: i128,
        /// Pods.
        pods: u64,
        /// How many of them there is room for.
        room: u64,
        /// Matching nodes that have it free.
        nodes: u32,
        /// What most of these nodes lack.
        lacking: ResourceName,
        /// How many of them.
        lacking_nodes: u32,
    },
    /// [`WaitReason::Fragmented`]: each task group fits, but not all of them together.
    GroupsCollide {
        /// Pods of all task groups.
        pods: u64,
        /// Nodes that match one of the task groups.
        nodes: u32,
        /// False where the search ended at its limit: then there may be a way
        /// that was not found.
        certain: bool,
    },
}

impl Detail {
    /// The reason whose numbers these are.
    #[must_use]
    pub const fn reason(&self) -> WaitReason {
        match self {
            Self::QueueNotFound { .. } => WaitReason::QueueNotFound,
            Self::QueueStopped { .. } => WaitReason::QueueStopped,
            Self::QueueMisconfigured { .. } => WaitReason::QueueMisconfigured,
            Self::BackingOff { .. } => WaitReason::BackingOff,
            Self::BehindHead { .. } => WaitReason::BehindHead,
            Self::FlavorNotFound { .. } => WaitReason::FlavorNotFound,
            Self::NotOffered { .. } | Self::ExceedsQuota { .. } => WaitReason::ExceedsQuota,
            Self::QuotaExceeded { .. } => WaitReason::QuotaExceeded,
            Self::NodesAvoided { .. } => WaitReason::NodesAvoided,
            Self::NoMatchingNodes { .. } => WaitReason::NoMatchingNodes,
            Self::PodTooLarge { .. } | Self::ClusterTooSmall { .. } | Self::TooFewPlaces { .. } => {
                WaitReason::ExceedsCluster
            }
            Self::InsufficientCapacity { .. } => WaitReason::InsufficientCapacity,
            Self::Scattered { .. } | Self::Apart { .. } | Self::GroupsCollide { .. } => {
                WaitReason::Fragmented
            }
        }
    }
}

/// Nodes that meet the constraints and look as if they had a resource (they
/// list it with 0, bear labels of its name, or are what the gang selects), but
/// advertise none: a fault of the device plugin there, not of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// The resource.
    pub resource: ResourceName,
    /// How many nodes.
    pub nodes: u32,
}

/// What keeps pods off nodes. Each node is counted once, for the first that
/// holds, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusions {
    /// All nodes there are.
    pub nodes: u32,
    /// Not ready.
    pub not_ready: u32,
    /// Unhealthy though ready, by what they are nodes with.
    pub unhealthy: Vec<(String, u32)>,
    /// Cordoned.
    pub unschedulable: u32,
    /// Excluded by the gang: a pod of it failed there not long ago.
    pub excluded: u32,
    /// Without a label of the node selector.
    pub selector: u32,
    /// Not allowed by required node affinity.
    pub affinity: u32,
    /// With a taint that is not tolerated, by taint as `kubectl` writes it.
    pub taints: Vec<(String, u32)>,
    /// Out of reach of a volume that the pods mount.
    pub volumes: u32,
    /// Where required anti-affinity of other pods keeps them out.
    pub kept_out: u32,
    /// Without a resource that the pod requests, by resource.
    pub lacking: Vec<(ResourceName, u32)>,
    /// Among those that lack a resource: nodes that look as if they had it.
    pub silent: Option<Silent>,
}
