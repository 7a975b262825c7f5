//! The explanation of a pending gang: one reason, with numbers.

mod amount;
mod capacity;
mod change;
mod context;
mod empty_capacity;
mod exclusions;
mod least_release;
mod node_report;
mod provisioning_obstacle;
mod slices;
mod survey;
mod text;
mod topology;
mod union;
mod wait_detail;

pub(crate) use capacity::{can_never_fit, explain, smallest_change};
pub use change::{LimitRaise, NodeRelease, QuotaRaise, UnblockingChange};
pub(crate) use context::{ExplanationContext, NominatedUsage};
pub use exclusions::{Exclusions, MissingLabel, UnadvertisedDevice};
pub(crate) use node_report::report_group_nodes;
pub use node_report::{GroupNodeReport, MatchingNode, NodeObstacle};
pub use provisioning_obstacle::{PermittedNodes, ProvisioningObstacle};
pub use slices::ScarceSlices;
pub use text::describe_new_nodes;
pub use topology::BestDomain;
pub(crate) use topology::check_levels as topology_is_there;
pub use wait_detail::{FlavorMismatch, MissingLevel, OwnQuota, ShareComparison, WaitDetail};

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The explanation of a pending gang. `Display` is the sentence that users read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitExplanation {
    /// The reason.
    pub reason: WaitReason,
    /// The numbers of the reason. Shared, because many equal gangs wait for the same reason.
    pub detail: Arc<WaitDetail>,
    /// The smallest change that would remove this reason. None: no change is known, or the detail
    /// already names it.
    pub change: Option<Arc<UnblockingChange>>,
    /// Why no nodes are provisioned for the gang. None: nodes would not help it, or none of its flavors
    /// may get new ones.
    pub provisioning_obstacle: Option<Arc<ProvisioningObstacle>>,
}

/// The parts of an explanation whose change a cycle reports. It reports no changed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportedReason {
    pub(crate) reason: WaitReason,
    /// The distance of the provisioning obstacle.
    pub(crate) obstacle: Option<u8>,
}

impl WaitExplanation {
    /// Returns the parts whose change a cycle reports.
    pub(crate) fn reported(&self) -> ReportedReason {
        let obstacle = self.provisioning_obstacle.as_deref();
        ReportedReason {
            reason: self.reason,
            obstacle: obstacle.map(ProvisioningObstacle::distance),
        }
    }
}

impl From<WaitDetail> for WaitExplanation {
    fn from(detail: WaitDetail) -> Self {
        Self {
            reason: detail.reason(),
            detail: Arc::new(detail),
            change: None,
            provisioning_obstacle: None,
        }
    }
}

/// The closed list of reasons, in the order of the checks. If several reasons apply to a gang, it
/// reports the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WaitReason {
    /// Its queue does not exist.
    QueueNotFound,
    /// Its queue is stopped.
    QueueStopped,
    /// Its queue exists but cannot be used as configured.
    QueueMisconfigured,
    /// The last try to start it failed, and the gang is backing off.
    BackingOff,
    /// Its queue starts gangs strictly in order, and another gang is at the head.
    BehindHead,
    /// No topology has the level that it requests.
    TopologyNotFound,
    /// It cannot use any of the queue's flavors.
    FlavorNotFound,
    /// A limit that it draws on outside its queue's quota has no room.
    QuotaPolicyExceeded,
    /// It requests more than the queue's whole quota, or a resource that the queue does not offer.
    ExceedsQuota,
    /// Other gangs hold the queue's quota.
    QuotaExceeded,
    /// No node meets its constraints.
    NoMatchingNodes,
    /// For a while it avoids nodes where it failed, and the remaining nodes do not suffice.
    NodesAvoided,
    /// It would not fit even if all matching nodes were empty.
    ExceedsCluster,
    /// No domain of the level that it must be in would hold it even if empty.
    ExceedsTopology,
    /// The matching nodes have too little free in total.
    InsufficientCapacity,
    /// Enough is free in total, but not within one domain of the level that it must be in.
    TopologyFragmented,
    /// Enough is free in total, but not together on the nodes where a pod needs it.
    Fragmented,
    /// It could start, but would delay a gang that waits before it.
    Reserved,
    /// It would start with new nodes, and waits for them.
    Provisioning,
}

/// The distance of an attempt with one flavor assignment from a start, nearest first. An attempt
/// that has passed more checks is nearer. An attempt that no ending gang would help comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StartDistance {
    /// It lacks only room or quota that is reserved for another gang.
    Reserved,
    /// It lacks room.
    Room,
    /// It lacks quota; room was not checked.
    Quota,
    /// A limit has no room; quota was not checked.
    Limit,
    /// For a while it avoids the nodes that would suffice.
    Avoided,
    /// It cannot start in the current state.
    Never,
}

impl WaitReason {
    /// True if room or quota that other gangs hold now blocks the gang.
    pub(crate) const fn is_caused_by_usage(self) -> bool {
        self.is_room_shortage() || matches!(self, Self::QuotaExceeded)
    }

    /// True if the gang may start when other gangs start or end.
    pub(crate) const fn ends_with_usage(self) -> bool {
        self.is_caused_by_usage()
            || matches!(
                self,
                Self::Reserved | Self::BehindHead | Self::QuotaPolicyExceeded
            )
    }

    /// True if there is too little room now, though there may be enough later.
    pub(crate) const fn is_room_shortage(self) -> bool {
        matches!(
            self,
            Self::InsufficientCapacity | Self::TopologyFragmented | Self::Fragmented
        )
    }

    /// True if more or other nodes would let the gang start.
    pub(crate) const fn is_shortage_of_nodes(self) -> bool {
        self.is_room_shortage()
            || matches!(
                self,
                Self::NoMatchingNodes
                    | Self::NodesAvoided
                    | Self::ExceedsCluster
                    | Self::ExceedsTopology
                    | Self::Provisioning
            )
    }

    /// Returns how far an attempt with this reason is from a start. The engine reports the nearest
    /// of several attempts.
    pub(crate) const fn distance(self) -> StartDistance {
        match self {
            Self::Reserved => StartDistance::Reserved,
            Self::InsufficientCapacity | Self::TopologyFragmented | Self::Fragmented => {
                StartDistance::Room
            }
            Self::QuotaExceeded => StartDistance::Quota,
            Self::QuotaPolicyExceeded => StartDistance::Limit,
            Self::NodesAvoided => StartDistance::Avoided,
            _ => StartDistance::Never,
        }
    }

    /// Returns the name of the reason in conditions, events and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueNotFound => "QueueNotFound",
            Self::QueueStopped => "QueueStopped",
            Self::QueueMisconfigured => "QueueMisconfigured",
            Self::BackingOff => "BackingOff",
            Self::BehindHead => "BehindHead",
            Self::TopologyNotFound => "TopologyNotFound",
            Self::FlavorNotFound => "FlavorNotFound",
            Self::QuotaPolicyExceeded => "QuotaPolicyExceeded",
            Self::ExceedsQuota => "ExceedsQuota",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::NoMatchingNodes => "NoMatchingNodes",
            Self::NodesAvoided => "NodesAvoided",
            Self::ExceedsCluster => "ExceedsCluster",
            Self::ExceedsTopology => "ExceedsTopology",
            Self::InsufficientCapacity => "InsufficientCapacity",
            Self::TopologyFragmented => "TopologyFragmented",
            Self::Fragmented => "Fragmented",
            Self::Reserved => "Reserved",
            Self::Provisioning => "Provisioning",
        }
    }
}

impl std::fmt::Display for WaitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
