//! The reason that each kind of numbers belongs to.

use super::WaitDetail;
use crate::explain::WaitReason;

impl WaitDetail {
    /// Returns the reason that these numbers belong to.
    #[must_use]
    pub const fn reason(&self) -> WaitReason {
        match self {
            Self::QueueNotFound { .. } => WaitReason::QueueNotFound,
            Self::QueueStopped { .. } => WaitReason::QueueStopped,
            Self::QueueMisconfigured { .. } => WaitReason::QueueMisconfigured,
            Self::BackingOff { .. } => WaitReason::BackingOff,
            Self::BehindHead { .. } => WaitReason::BehindHead,
            Self::TopologyNotFound { .. } => WaitReason::TopologyNotFound,
            Self::FlavorNotFound { .. }
            | Self::FlavorNotOffered { .. }
            | Self::NoSharedFlavor { .. } => WaitReason::FlavorNotFound,
            Self::LimitExceeded { .. } | Self::LimitClosed { .. } | Self::TooManyPending { .. } => {
                WaitReason::QuotaPolicyExceeded
            }
            Self::NotOffered { .. } | Self::ExceedsQuota { .. } => WaitReason::ExceedsQuota,
            Self::QuotaExceeded { .. } => WaitReason::QuotaExceeded,
            Self::NodesAvoided { .. } => WaitReason::NodesAvoided,
            Self::NoMatchingNodes { .. } => WaitReason::NoMatchingNodes,
            Self::PodTooLarge { .. } | Self::ClusterTooSmall { .. } | Self::TooFewPlaces { .. } => {
                WaitReason::ExceedsCluster
            }
            Self::ExceedsTopology(_) | Self::ExceedsSlices(_) => WaitReason::ExceedsTopology,
            Self::InsufficientCapacity { .. } => WaitReason::InsufficientCapacity,
            Self::TopologyFragmented { .. } | Self::SlicesFragmented(_) => {
                WaitReason::TopologyFragmented
            }
            Self::Scattered { .. }
            | Self::SeparateResources { .. }
            | Self::GroupsCollide { .. } => WaitReason::Fragmented,
            Self::Reserved { .. } | Self::QuotaReserved { .. } => WaitReason::Reserved,
            Self::Provisioning { .. } => WaitReason::Provisioning,
        }
    }

    /// True if the gang is refused instead of pending.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::LimitExceeded { refuses: true, .. }
                | Self::LimitClosed { refuses: true, .. }
                | Self::TooManyPending { refuses: true, .. }
        )
    }
}
