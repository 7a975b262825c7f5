//! Converts the engine's reasons into those of the API.

use trellis_api::Reason;
use trellis_api::pod_group::VictimReason;
use trellis_scheduler::{Engine, GangId, PreemptionReason, WaitReason};

/// Returns why another gang preempts this one, in the words of the API. None if no gang does.
#[must_use]
pub fn to_preemption_reason(reason: PreemptionReason) -> Option<VictimReason> {
    match reason {
        PreemptionReason::LaterInQueue => Some(VictimReason::LaterInQueue),
        PreemptionReason::Surplus => Some(VictimReason::Surplus),
        PreemptionReason::Borrows => Some(VictimReason::Borrows),
        PreemptionReason::LowerPriority => Some(VictimReason::LowerPriority),
        PreemptionReason::FairShare => Some(VictimReason::FairShare),
        PreemptionReason::Drained => None,
    }
}

/// Appends to a message when the gang starts, if the engine reserves capacity for it.
#[must_use]
pub(crate) fn append_reservation(engine: &Engine, id: &GangId, message: String) -> String {
    match engine.reservation(id).map(|reservation| reservation.start) {
        Some(Some(start)) => {
            format!(
                "{message}; it is next for free capacity, and starts at {start} at the latest if running gangs end on time"
            )
        }
        Some(None) => format!(
            "{message}; it is next for free capacity; its start is not known, so the capacity is reserved \
             for it only once it has waited for 10 minutes"
        ),
        None => message,
    }
}

/// Returns the reason in the words of the API.
#[must_use]
pub fn to_api_reason(reason: WaitReason) -> Reason {
    match reason {
        WaitReason::QueueNotFound => Reason::QueueNotFound,
        WaitReason::QueueStopped => Reason::QueueStopped,
        WaitReason::QueueMisconfigured => Reason::QueueMisconfigured,
        WaitReason::BackingOff => Reason::BackingOff,
        WaitReason::BehindHead => Reason::BehindHead,
        WaitReason::TopologyNotFound => Reason::TopologyNotFound,
        WaitReason::FlavorNotFound => Reason::FlavorNotFound,
        WaitReason::ExceedsQuota => Reason::ExceedsQuota,
        WaitReason::QuotaExceeded => Reason::QuotaExceeded,
        WaitReason::QuotaPolicyExceeded => Reason::QuotaPolicyExceeded,
        WaitReason::NodesAvoided => Reason::NodesAvoided,
        WaitReason::NoMatchingNodes => Reason::NoMatchingNodes,
        WaitReason::ExceedsCluster => Reason::ExceedsCluster,
        WaitReason::ExceedsTopology => Reason::ExceedsTopology,
        WaitReason::InsufficientCapacity => Reason::InsufficientCapacity,
        WaitReason::TopologyFragmented => Reason::TopologyFragmented,
        WaitReason::Fragmented => Reason::Fragmented,
        WaitReason::Reserved => Reason::Reserved,
        WaitReason::Provisioning => Reason::Provisioning,
    }
}
