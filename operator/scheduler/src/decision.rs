//! What a cycle answers.

use crate::explain::Certificate;
use crate::ids::GangId;
use crate::placement::Placement;
use crate::time::Time;

/// A decision of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The whole gang has a place. Its pods are assumed to be there from now on.
    Place {
        /// The gang.
        gang: GangId,
        /// Where its pods go.
        placement: Placement,
        /// How good the place is.
        score: Score,
    },
    /// The whole gang will have a place once its victims are gone. From now on the
    /// place is its own, nobody else is put there, and the victims are leaving:
    /// their quota is charged to it and runs out for nobody else before they have
    /// left, they are charged to their nodes until their pods are gone, and neither
    /// start nor are victims again until they are released
    /// ([`crate::Engine::release_gang`]), deleted, or restored because the gang
    /// gave up. Once all that they hold is free, [`Decision::Place`] follows.
    Preempt {
        /// The gang.
        gang: GangId,
        /// Where its pods go.
        placement: Placement,
        /// Who leaves, by name.
        victims: Vec<Victim>,
    },
    /// The queue of the gang is drained: the gang is leaving, as victims are.
    Drain {
        /// The gang.
        victim: Victim,
    },
    /// The gang is the first that waits for room where it may go, and this is kept for it:
    /// others start before it only where that does not make it later. Said where it
    /// is new or has moved; it ends when the gang starts or another reservation
    /// is told for the same nodes.
    Reserve {
        /// The gang.
        gang: GangId,
        /// When it starts, if what runs ends when it should. None: not known.
        start: Option<Time>,
        /// Where its pods would go then.
        placement: Placement,
    },
    /// The gang goes on waiting, for another reason than was last said.
    Wait {
        /// The gang.
        gang: GangId,
        /// Why, with the numbers of this moment.
        certificate: Certificate,
    },
}

impl Decision {
    /// The word for it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Place { .. } => "Place",
            Self::Preempt { .. } => "Preempt",
            Self::Drain { .. } => "Drain",
            Self::Reserve { .. } => "Reserve",
            Self::Wait { .. } => "Wait",
        }
    }
}

/// What would become of a gang that is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Where its pods would go.
    pub placement: Placement,
    /// Who would have to leave first, by name. Mostly nobody.
    pub victims: Vec<Victim>,
}

/// A gang that leaves so that another can be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The gang.
    pub gang: GangId,
    /// Why it, and not another.
    pub because: Because,
    /// What is lost: device-seconds of work since its last checkpoint, or since
    /// it got its place.
    pub lost_device_seconds: u64,
}

/// Why a gang may be preempted by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Because {
    /// It waits in the same queue, behind the other.
    LaterInQueue,
    /// Its queue holds more than its quota, and the other asks for its own.
    Borrows,
    /// Both borrow, and its priority is lower.
    LowerPriority,
    /// Its queue is drained.
    Drained,
    /// It is surplus in the same queue.
    Surplus,
}

impl std::fmt::Display for Because {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::LaterInQueue => "it comes after the other in their queue",
            Self::Borrows => "its queue holds more than its quota, which the other asks back",
            Self::LowerPriority => "both borrow, and its priority is lower",
            Self::Drained => "its queue is drained",
            Self::Surplus => "it is surplus in their queue, which makes room first",
        })
    }
}

/// How good a place is. Fewer devices left over is better, then fewer nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score {
    /// Devices that stay free on the nodes that the gang uses: what it breaks
    /// off whole nodes. Of gangs without devices: devices of any kind on them.
    pub devices_left: u64,
    /// Nodes that the gang uses.
    pub nodes: u32,
}
