//! Decisions of a scheduling cycle.

use std::collections::BTreeMap;

use crate::explain::WaitExplanation;
use crate::ids::{FlavorName, GangId};
use crate::placement::Placement;
use crate::provisioning::{NodeRequest, Provisioning};
use crate::time::Time;

/// A decision of a scheduling cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The whole gang is placed. The engine counts its pods on their nodes from now on.
    Place {
        /// The gang.
        gang: GangId,
        /// Where its pods go.
        placement: Placement,
        /// How good the placement is.
        score: PlacementScore,
    },
    /// The engine will place the whole gang after its victims are gone. From now on the engine
    /// reserves the placement for this gang, and the victims are leaving. Their quota passes to the
    /// gang at once, but the gang may use it only after they have left. Their nodes stay charged
    /// until the pods are gone. A leaving victim neither starts nor becomes a victim again until it
    /// is released ([`crate::Engine::release_gang`]), deleted, or restored because the gang gave
    /// up. [`Decision::Place`] follows when all that the victims hold is free.
    Preempt {
        /// The gang.
        gang: GangId,
        /// Where its pods go.
        placement: Placement,
        /// The gangs that must leave, by name.
        victims: Vec<Victim>,
    },
    /// The engine drains the queue of the gang. The gang leaves in the same way as a victim.
    Drain {
        /// The gang.
        victim: Victim,
    },
    /// The gang is the first that waits for room on these nodes, and the engine reserves them.
    /// Other gangs start there first only if that does not delay it. The engine reports the
    /// reservation when it is new or has moved. The reservation ends when the gang starts or when
    /// the engine reports another reservation for the same nodes.
    Reserve {
        /// The gang.
        gang: GangId,
        /// When the gang starts if running gangs end on time. None: unknown.
        start: Option<Time>,
        /// Where its pods would go at that time.
        placement: Placement,
    },
    /// The gang would start with new nodes, and waits for them. The caller asks an autoscaler for
    /// room for the whole gang: the autoscaler counts existing nodes itself. The engine keeps quota
    /// and room for the gang until it starts ([`Decision::Place`]) or gives up
    /// ([`Decision::EndProvisioning`]).
    Provision(NodeRequest),
    /// The engine no longer waits for new nodes for the gang. The caller gives them back.
    EndProvisioning {
        /// The gang.
        gang: GangId,
        /// The nodes that it waited for.
        provisioning: Provisioning,
        /// True if they did not come in time. False: other gangs have taken its quota or room, or
        /// it may no longer have new nodes.
        is_late: bool,
    },
    /// The gang is still pending, but the reason has changed since the last report.
    Wait {
        /// The gang.
        gang: GangId,
        /// The reason, with the current numbers.
        explanation: WaitExplanation,
    },
}

impl Decision {
    /// Returns the name of the decision.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Place { .. } => "Place",
            Self::Preempt { .. } => "Preempt",
            Self::Drain { .. } => "Drain",
            Self::Reserve { .. } => "Reserve",
            Self::Provision(_) => "Provision",
            Self::EndProvisioning { .. } => "EndProvisioning",
            Self::Wait { .. } => "Wait",
        }
    }
}

/// The result of trying a gang without placing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialPlacement {
    /// Where its pods would go.
    pub placement: Placement,
    /// The gangs that would have to leave first, by name. Usually empty.
    pub victims: Vec<Victim>,
    /// The number of new nodes that would have to come first, by flavor. Usually empty.
    pub new_nodes: BTreeMap<FlavorName, u32>,
}

/// A gang that leaves so that the engine can place another gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The gang.
    pub gang: GangId,
    /// Why the engine chose this gang.
    pub reason: PreemptionReason,
    /// Lost work: device-seconds since the victim's last checkpoint, or since its placement if it
    /// has written none.
    pub lost_device_seconds: u64,
}

/// The reason why a gang may be a victim of another gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PreemptionReason {
    /// The victim comes after the preemptor in the same queue.
    LaterInQueue,
    /// The victim's queue holds more than its quota, and the preemptor reclaims its own.
    Borrows,
    /// Both queues would borrow, and the victim's priority is lower than the preemptor's.
    LowerPriority,
    /// Before the victim leaves, its queue has a larger share of borrowed quota than the
    /// preemptor's queue would have with the preemptor.
    FairShare,
    /// The engine drains the victim's queue.
    Drained,
    /// The victim is surplus in the same queue.
    Surplus,
}

impl std::fmt::Display for PreemptionReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::LaterInQueue => "it comes after the other in their queue",
            Self::Borrows => "its queue holds more than its quota, which the other asks back",
            Self::LowerPriority => "both borrow, and its priority is lower",
            Self::FairShare => "its queue has the larger share of borrowed quota",
            Self::Drained => "its queue is drained",
            Self::Surplus => "it is surplus in their queue, which makes room first",
        })
    }
}

/// How good a placement is. Fewer free devices left is better, then fewer nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementScore {
    /// Devices that stay free on the nodes that the gang uses: the fragmentation that it causes.
    /// Only the device kinds of its task groups count. For a gang without devices, all kinds count.
    pub devices_left: u64,
    /// Nodes that the gang uses.
    pub nodes: u32,
}
