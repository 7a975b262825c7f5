//! The numbers of each reason.

use super::{Exclusions, InDomain, Silent, WaitReason};
use crate::ids::{FlavorName, GangId, GroupName, LimitName, QueueName, ResourceName};
use crate::limits::Closure;
use crate::queue::Reclaim;
use crate::time::Time;

/// What keeps a task group off a flavor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is not defined.
    Undefined,
    /// It has taints that the group does not tolerate.
    Untolerated,
    /// The group's node selector asks for other nodes.
    Elsewhere,
}

/// A level of a topology that a gang asks for and that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingLevel {
    /// No topology has the level that is required.
    Required(String),
    /// No topology has the level that is preferred.
    Preferred(String),
    /// The topology of the required level has no such finer level.
    NotFiner {
        /// The level that is required.
        required: String,
        /// The level that is preferred.
        preferred: String,
    },
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
    /// [`WaitReason::TopologyNotFound`].
    TopologyNotFound {
        /// The task group that asks, where it is one of several and not the gang.
        group: Option<GroupName>,
        /// The level that is missing.
        missing: MissingLevel,
        /// The levels that there are.
        levels: Vec<String>,
    },
    /// [`WaitReason::FlavorNotFound`].
    FlavorNotFound {
        /// The queue.
        queue: QueueName,
        /// The task group, where there are several.
        group: Option<GroupName>,
        /// Flavors that it might use, each with what keeps it off.
        flavors: Vec<(FlavorName, Unfit)>,
    },
    /// [`WaitReason::FlavorNotFound`]: the group names flavors that its queue does
    /// not offer.
    FlavorNotOffered {
        /// The queue.
        queue: QueueName,
        /// The task group, where there are several.
        group: Option<GroupName>,
        /// What the group names.
        flavors: Vec<FlavorName>,
        /// What the queue offers.
        offers: Vec<FlavorName>,
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
    /// [`WaitReason::QuotaPolicyExceeded`]: others hold too much of it.
    LimitExceeded {
        /// The limit: the first of those that have no room.
        limit: LimitName,
        /// The resource that it counts. None: it counts gangs.
        resource: Option<ResourceName>,
        /// What the gang needs of it.
        needs: i128,
        /// The limit.
        most: i128,
        /// What is held of it.
        used: i128,
        /// What would have to be given back.
        missing: i128,
        /// How many gangs hold some.
        holders: u32,
        /// Who of them holds most, at most three.
        largest: Vec<(GangId, i128)>,
        /// The gang is refused for it.
        refuses: bool,
    },
    /// [`WaitReason::QuotaPolicyExceeded`]: so many wait that it may not.
    TooManyWait {
        /// The limit.
        limit: LimitName,
        /// How many may wait.
        most: i128,
        /// How many came before it.
        before: i128,
        /// The gang is refused for it.
        refuses: bool,
    },
    /// [`WaitReason::QuotaPolicyExceeded`]: nothing may be drawn from it for a while.
    LimitClosed {
        /// The limit.
        limit: LimitName,
        /// Why, and until when.
        closure: Closure,
        /// The gang is refused for it.
        refuses: bool,
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
        /// How the gang's own queue stands, where it is one of several below a parent.
        own: Option<OwnQuota>,
        /// What would have to be given back.
        missing: i128,
        /// How many gangs of the gang's own queue hold some.
        holders: u32,
        /// Who of them holds most, at most three.
        largest: Vec<(GangId, i128)>,
        /// Other queues below that one that hold some of it, with how much: those
        /// that hold most, at most three. Looked up for whom it is told.
        queues: Vec<(QueueName, i128)>,
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
        /// What keeps it off the nodes that do not match, where it is one group.
        others: Exclusions,
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
        /// What keeps it off the nodes that do not match, where it is one group.
        others: Exclusions,
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
        /// What keeps it off the nodes that do not match, where it is one group.
        others: Exclusions,
    },
    /// [`WaitReason::ExceedsTopology`]: of empty nodes.
    ExceedsTopology(InDomain),
    /// [`WaitReason::TopologyFragmented`]: of what is free.
    TopologyFragmented {
        /// The numbers.
        domain: InDomain,
        /// False where the search ended at its limit: then there may be a way
        /// that was not found.
        certain: bool,
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
    /// [`WaitReason::Reserved`]: room is.
    Reserved {
        /// The first gang that it would make later.
        head: GangId,
        /// When that starts, where it is known.
        start: Option<Time>,
        /// How many nodes its place has.
        nodes: u32,
    },
    /// [`WaitReason::Reserved`]: quota is.
    QuotaReserved {
        /// The queue.
        queue: QueueName,
        /// The gang of that queue that it would make later.
        head: GangId,
        /// When there is quota for that, where it is known.
        start: Option<Time>,
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

/// How a queue stands with its own quota of a resource, in base units: the
/// numbers that its owner wrote, beside those of the arithmetic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnQuota {
    /// The queue.
    pub queue: QueueName,
    /// Its nominal quota.
    pub nominal: i128,
    /// What its gangs hold.
    pub held: i128,
    /// What it may borrow now, beyond what it borrows already.
    pub may_borrow: i128,
    /// How much of what the gang needs it would borrow.
    pub would_borrow: i128,
    /// What others borrow is owed to it, and this is what its policy says of taking
    /// that back. None: nothing is owed, or the policy holds it up from nobody.
    pub reclaim: Option<Reclaim>,
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
            Self::TopologyNotFound { .. } => WaitReason::TopologyNotFound,
            Self::FlavorNotFound { .. } | Self::FlavorNotOffered { .. } => {
                WaitReason::FlavorNotFound
            }
            Self::LimitExceeded { .. } | Self::LimitClosed { .. } | Self::TooManyWait { .. } => {
                WaitReason::QuotaPolicyExceeded
            }
            Self::NotOffered { .. } | Self::ExceedsQuota { .. } => WaitReason::ExceedsQuota,
            Self::QuotaExceeded { .. } => WaitReason::QuotaExceeded,
            Self::NodesAvoided { .. } => WaitReason::NodesAvoided,
            Self::NoMatchingNodes { .. } => WaitReason::NoMatchingNodes,
            Self::PodTooLarge { .. } | Self::ClusterTooSmall { .. } | Self::TooFewPlaces { .. } => {
                WaitReason::ExceedsCluster
            }
            Self::ExceedsTopology(_) => WaitReason::ExceedsTopology,
            Self::InsufficientCapacity { .. } => WaitReason::InsufficientCapacity,
            Self::TopologyFragmented { .. } => WaitReason::TopologyFragmented,
            Self::Scattered { .. } | Self::Apart { .. } | Self::GroupsCollide { .. } => {
                WaitReason::Fragmented
            }
            Self::Reserved { .. } | Self::QuotaReserved { .. } => WaitReason::Reserved,
        }
    }

    /// True where the gang is refused, and does not merely wait.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::LimitExceeded { refuses: true, .. }
                | Self::LimitClosed { refuses: true, .. }
                | Self::TooManyWait { refuses: true, .. }
        )
    }
}
