//! Why a gang waits: one reason, with numbers.

mod amount;
mod by_node;
mod capacity;
mod change;
mod detail;
mod exclusions;
mod freeing;
mod supply;
mod survey;
mod text;
mod topology;
mod union;

pub(crate) use by_node::by_node;
pub use by_node::{GroupNodes, MatchingNode, Obstacle};
pub(crate) use capacity::{Promised, Question, explain, never_holds, what_helps};
pub use change::{Allow, Change, FreeOn, Raise};
pub use detail::{Detail, MissingLevel, OwnQuota, Unfit};
pub use exclusions::{Exclusions, MissingLabel, Silent};
pub use topology::InDomain;
pub(crate) use topology::is_there as topology_is_there;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a gang waits. `Display` is the sentence that users read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Certificate {
    /// The reason.
    pub reason: WaitReason,
    /// Its numbers. Shared, since many equal gangs wait for the same.
    pub detail: Arc<Detail>,
    /// The smallest change that would let it pass that. None: none is known, or the
    /// detail names what is waited for.
    pub change: Option<Arc<Change>>,
}

impl From<Detail> for Certificate {
    fn from(detail: Detail) -> Self {
        Self {
            reason: detail.reason(),
            detail: Arc::new(detail),
            change: None,
        }
    }
}

/// The closed list of reasons, in the order in which they are looked for: a
/// gang that has several waits for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// No topology has the level that it asks for.
    TopologyNotFound,
    /// None of the queue's flavors can be used by it.
    FlavorNotFound,
    /// A limit that it draws on, beside the quota of its queue, has no room.
    QuotaPolicyExceeded,
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
    /// No domain of the level that it must be in would hold it even if empty.
    ExceedsTopology,
    /// The matching nodes have too little free in total.
    InsufficientCapacity,
    /// Enough is free in total, but not within one domain of the level that it must be in.
    TopologyFragmented,
    /// Enough is free in total, but not together where it is needed.
    Fragmented,
    /// It could start, and would make a gang later that waits before it.
    Reserved,
}

/// What a way lacks, the nearest to a start first: what has passed most of what is
/// asked comes first, what nobody's end would change last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Distance {
    /// Nothing but what is kept for another.
    Kept,
    /// Room.
    Room,
    /// Quota; whether there is room nobody has looked.
    Quota,
    /// Room in a limit; whether there is quota nobody has looked.
    Limit,
    /// Nodes that are left out for a while.
    Avoided,
    /// It never starts as things are.
    Never,
}

impl WaitReason {
    /// True where it is others that stand in the way, with what they hold now.
    pub(crate) const fn ends_when_others_do(self) -> bool {
        self.is_for_room() || matches!(self, Self::QuotaExceeded)
    }

    /// True where there is too little room now, and there might be.
    pub(crate) const fn is_for_room(self) -> bool {
        matches!(
            self,
            Self::InsufficientCapacity | Self::TopologyFragmented | Self::Fragmented
        )
    }

    /// How far a gang is from its start that waits for this in one of its ways: of
    /// several ways it is told of the nearest.
    pub(crate) const fn distance(self) -> Distance {
        match self {
            Self::Reserved => Distance::Kept,
            Self::InsufficientCapacity | Self::TopologyFragmented | Self::Fragmented => {
                Distance::Room
            }
            Self::QuotaExceeded => Distance::Quota,
            Self::QuotaPolicyExceeded => Distance::Limit,
            Self::NodesAvoided => Distance::Avoided,
            _ => Distance::Never,
        }
    }

    /// The word itself, as conditions, events and metrics bear it.
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
        }
    }
}

impl std::fmt::Display for WaitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
