//! The numbers of each reason.

mod mismatch;
mod own_quota;
mod reasons;

use std::collections::BTreeMap;

#[cfg(doc)]
use super::WaitReason;
use super::{BestDomain, Exclusions, ScarceSlices, UnadvertisedDevice};
use crate::ids::{FlavorName, GangId, GroupName, LimitName, QueueName, ResourceName};
use crate::limits::LimitClosure;
use crate::time::Time;
pub use mismatch::{FlavorMismatch, MissingLevel};
pub use own_quota::{OwnQuota, ShareComparison};

/// The numbers of a reason. Amounts are in base units (see [`crate::Resources`]). `group` names the
/// task group that does not fit, if the gang has several; None means the gang as a whole.
/// *Matching* nodes meet the group's constraints and advertise every resource that one pod
/// requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitDetail {
    /// [`WaitReason::QueueNotFound`].
    QueueNotFound {
        /// The queue that does not exist.
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
        /// The fault of the queue, as a predicate without a subject.
        fault: String,
    },
    /// [`WaitReason::BehindHead`].
    BehindHead {
        /// The queue.
        queue: QueueName,
        /// The gang at the head of the queue.
        head: GangId,
    },
    /// [`WaitReason::TopologyNotFound`].
    TopologyNotFound {
        /// The task group that requests the level, if it is one of several and the gang does not
        /// request it.
        group: Option<GroupName>,
        /// The level that does not exist.
        missing: MissingLevel,
        /// The levels that exist.
        levels: Vec<String>,
    },
    /// [`WaitReason::FlavorNotFound`].
    FlavorNotFound {
        /// The queue.
        queue: QueueName,
        /// The task group, where there are several.
        group: Option<GroupName>,
        /// Flavors that the group might use, each with the reason why it cannot.
        flavors: Vec<(FlavorName, FlavorMismatch)>,
    },
    /// [`WaitReason::FlavorNotFound`]: the group names flavors that its queue does
    /// not offer.
    FlavorNotOffered {
        /// The queue.
        queue: QueueName,
        /// The task group, where there are several.
        group: Option<GroupName>,
        /// Flavors that the group names.
        flavors: Vec<FlavorName>,
        /// Flavors that the queue offers.
        offers: Vec<FlavorName>,
    },
    /// [`WaitReason::FlavorNotFound`]: task groups must get the same flavor, and no flavor of the
    /// queue suits all of them.
    NoSharedFlavor {
        /// The queue.
        queue: QueueName,
        /// The task groups, each with the flavors that it accepts. All are empty: the queue has no
        /// quotas, and no group names a flavor.
        groups: Vec<(GroupName, Vec<FlavorName>)>,
    },
    /// [`WaitReason::BackingOff`].
    BackingOff {
        /// When the engine tries the gang again.
        until: Time,
    },
    /// [`WaitReason::ExceedsQuota`]: the queue does not offer a resource.
    NotOffered {
        /// The queue.
        queue: QueueName,
        /// The resource.
        resource: ResourceName,
        /// Units of the resource that the gang needs.
        needs: i128,
        /// Resources that the queue offers.
        offers: Vec<ResourceName>,
    },
    /// [`WaitReason::ExceedsQuota`]: more than the queue could get if no other gang held any.
    ExceedsQuota {
        /// The queue.
        queue: QueueName,
        /// The flavor, unless it is the default one.
        flavor: Option<FlavorName>,
        /// The resource.
        resource: ResourceName,
        /// Units of the resource that the gang needs.
        needs: i128,
        /// The most that the queue could ever get.
        most: i128,
    },
    /// [`WaitReason::QuotaPolicyExceeded`]: other gangs hold too much of the limit.
    LimitExceeded {
        /// The first of the limits that have no room.
        limit: LimitName,
        /// The resource that it counts. None: it counts gangs.
        resource: Option<ResourceName>,
        /// Amount of the limit that the gang needs.
        needs: i128,
        /// The maximum of the limit.
        most: i128,
        /// Amount of the limit in use.
        used: i128,
        /// Amount that other gangs must give back before the gang can start.
        missing: i128,
        /// How many gangs hold some of the limit.
        holders: u32,
        /// The gangs that hold most, at most three, with their amounts.
        largest: Vec<(GangId, i128)>,
        /// True if the gang is refused instead of pending.
        refuses: bool,
    },
    /// [`WaitReason::QuotaPolicyExceeded`]: too many gangs are pending before this one.
    TooManyPending {
        /// The limit.
        limit: LimitName,
        /// How many gangs may be pending.
        max_pending: i128,
        /// How many pending gangs came before this one.
        pending_before: i128,
        /// True if the gang is refused instead of pending.
        refuses: bool,
    },
    /// [`WaitReason::QuotaPolicyExceeded`]: no gang may draw on the limit for a while.
    LimitClosed {
        /// The limit.
        limit: LimitName,
        /// Why the limit is closed, and until when.
        closure: LimitClosure,
        /// True if the gang is refused instead of pending.
        refuses: bool,
    },
    /// [`WaitReason::QuotaExceeded`].
    QuotaExceeded {
        /// The queue whose limit is exceeded: the gang's queue, or one above it.
        queue: QueueName,
        /// True: the queue's borrowing limit is exceeded. False: its quota is.
        borrowing_limit: bool,
        /// The flavor, unless it is the default one.
        flavor: Option<FlavorName>,
        /// The resource that lacks most, relative to its quota.
        resource: ResourceName,
        /// Units of the resource that the gang needs.
        needs: i128,
        /// The quota or borrowing limit.
        most: i128,
        /// Units of the resource in use.
        used: i128,
        /// The state of the gang's own queue, if it is one of several below a parent.
        own: Option<OwnQuota>,
        /// Units that other gangs must give back before the gang can start.
        missing: i128,
        /// How many gangs of the gang's own queue hold some of the resource.
        holders: u32,
        /// The gangs of its own queue that hold most, at most three, with their units.
        largest: Vec<(GangId, i128)>,
        /// Other queues below `queue` that hold most of the resource, at most three, with their
        /// units. The engine computes them only for reported explanations.
        queues: Vec<(QueueName, i128)>,
        /// Other queues that borrow most beyond their quota, at most three, with the units that
        /// they borrow.
        borrowers: Vec<(QueueName, i128)>,
        /// The comparison of shares, if the gang's queue takes quota by fair share and other queues
        /// borrow. The engine computes it only for reported explanations.
        fair_share: Option<ShareComparison>,
    },
    /// [`WaitReason::NodesAvoided`].
    NodesAvoided {
        /// Number of nodes that the gang avoids; with them it might fit.
        avoided: u32,
    },
    /// [`WaitReason::NoMatchingNodes`].
    NoMatchingNodes {
        /// The task group.
        group: Option<GroupName>,
        /// The reasons that keep the group off each of the nodes.
        exclusions: Exclusions,
    },
    /// [`WaitReason::ExceedsCluster`]: one pod is larger than every node.
    PodTooLarge {
        /// The task group.
        group: Option<GroupName>,
        /// The resource. None: each resource suffices somewhere, but no node has all of them
        /// together.
        resource: Option<ResourceName>,
        /// Units of the resource that one pod needs.
        needs: i128,
        /// Units of the resource on the largest matching node.
        largest: i128,
        /// Matching nodes.
        nodes: u32,
        /// Nodes that would match if they advertised the resource that their labels promise.
        unadvertised: Option<UnadvertisedDevice>,
        /// The reasons that keep the group off the other nodes, if the reason concerns a single
        /// group.
        exclusions: Exclusions,
    },
    /// [`WaitReason::ExceedsCluster`]: together the nodes have too little.
    ClusterTooSmall {
        /// The task group.
        group: Option<GroupName>,
        /// The resource.
        resource: ResourceName,
        /// Units of the resource that are needed.
        needs: i128,
        /// Units of the resource on the matching nodes when they are empty.
        capacity: i128,
        /// Matching nodes.
        nodes: u32,
        /// Nodes that would match if they advertised the resource that their labels promise.
        unadvertised: Option<UnadvertisedDevice>,
        /// The reasons that keep the group off the other nodes, if the reason concerns a single
        /// group.
        exclusions: Exclusions,
    },
    /// [`WaitReason::ExceedsCluster`]: enough in total, but not in pieces of that size.
    TooFewPlaces {
        /// The task group.
        group: Option<GroupName>,
        /// Number of pods.
        pods: u64,
        /// How many of the pods empty nodes would hold. None: each task group would fit, but not
        /// all of them together.
        room: Option<u64>,
        /// Matching nodes.
        nodes: u32,
        /// Nodes that would match if they advertised the resource that their labels promise.
        unadvertised: Option<UnadvertisedDevice>,
        /// The reasons that keep the group off the other nodes, if the reason concerns a single
        /// group.
        exclusions: Exclusions,
    },
    /// [`WaitReason::ExceedsTopology`], counted on empty nodes.
    ExceedsTopology(BestDomain),
    /// [`WaitReason::ExceedsTopology`]: the slices of a group, counted on empty nodes.
    ExceedsSlices(ScarceSlices),
    /// [`WaitReason::TopologyFragmented`]: the slices of a group, counted on free capacity.
    SlicesFragmented(ScarceSlices),
    /// [`WaitReason::TopologyFragmented`], counted on free capacity.
    TopologyFragmented {
        /// The numbers.
        domain: BestDomain,
        /// False if the search ended at its limit: there may be a placement that it did not find.
        certain: bool,
    },
    /// [`WaitReason::InsufficientCapacity`].
    InsufficientCapacity {
        /// The task group.
        group: Option<GroupName>,
        /// The resource.
        resource: ResourceName,
        /// Units of the resource that are needed.
        needs: i128,
        /// Units of the resource that are free on matching nodes.
        free: i128,
        /// Units that are missing.
        missing: i128,
        /// Matching nodes.
        nodes: u32,
        /// Units that placed gangs hold on matching nodes.
        used_by_gangs: i128,
        /// Units that other pods hold on matching nodes, including terminating pods of gangs.
        used_by_external_pods: i128,
    },
    /// [`WaitReason::Fragmented`]: the free capacity is scattered over too many nodes.
    Scattered {
        /// The task group.
        group: Option<GroupName>,
        /// The resource.
        resource: ResourceName,
        /// Units of the resource that one pod needs.
        needs: i128,
        /// Pods.
        pods: u64,
        /// How many of the pods fit.
        room: u64,
        /// Units of the resource that are free on matching nodes.
        free: i128,
        /// Matching nodes that have some of the resource free.
        nodes: u32,
        /// The most that is free on one node.
        largest_free: i128,
    },
    /// [`WaitReason::Fragmented`]: each resource is free, but not on the same nodes.
    SeparateResources {
        /// The task group.
        group: Option<GroupName>,
        /// The resource that packing considers first.
        resource: ResourceName,
        /// Units of the resource that one pod needs.
        needs: i128,
        /// Pods.
        pods: u64,
        /// How many of the pods fit.
        room: u64,
        /// Matching nodes that have the resource free.
        nodes: u32,
        /// The resource that most of these nodes lack.
        missing_resource: ResourceName,
        /// How many of these nodes lack it.
        missing_resource_nodes: u32,
    },
    /// [`WaitReason::Reserved`]: the nodes are reserved.
    Reserved {
        /// The first gang that this gang would delay.
        head: GangId,
        /// When `head` starts, if that is known.
        start: Option<Time>,
        /// How many nodes `head` would use.
        nodes: u32,
    },
    /// [`WaitReason::Reserved`]: the quota is reserved.
    QuotaReserved {
        /// The queue.
        queue: QueueName,
        /// The gang of that queue that this gang would delay.
        head: GangId,
        /// When quota admits `head`, if that is known.
        start: Option<Time>,
    },
    /// [`WaitReason::Provisioning`].
    Provisioning {
        /// The number of new nodes that the gang waits for, by flavor.
        nodes: BTreeMap<FlavorName, u32>,
        /// How many of them have arrived.
        arrived: u32,
        /// When they are given back if the gang has not started.
        until: Time,
    },
    /// [`WaitReason::Fragmented`]: each task group fits, but not all of them together.
    GroupsCollide {
        /// Pods of all task groups.
        pods: u64,
        /// Nodes that match one of the task groups.
        nodes: u32,
        /// False if the search ended at its limit: there may be a placement that it did not find.
        certain: bool,
    },
}
