//! What a cycle answers.

use crate::explain::Certificate;
use crate::ids::GangId;
use crate::placement::Placement;

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
    /// The gang goes on waiting, for another reason than was last said.
    Wait {
        /// The gang.
        gang: GangId,
        /// Why, with the numbers of this moment.
        certificate: Certificate,
    },
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
