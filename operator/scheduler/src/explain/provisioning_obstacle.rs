//! Why no nodes are provisioned for a gang that lacks nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::WaitDetail;
use crate::ids::{FlavorName, QueueName};
use crate::time::Time;

/// Why no nodes are provisioned for a gang that lacks nodes. Of several obstacles, the engine
/// reports the first in the order of this list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvisioningObstacle {
    /// The gang has not lacked only nodes for long enough.
    Delay {
        /// The new nodes with which it would start, by flavor.
        nodes: BTreeMap<FlavorName, u32>,
        /// When they are provisioned, unless the gang starts before.
        until: Time,
    },
    /// As many other gangs as possible wait for new nodes of the flavor.
    TooManyGangs {
        /// The flavor.
        flavor: FlavorName,
        /// The other gangs.
        gangs: usize,
    },
    /// Earlier nodes of the flavor did not come in time.
    BackOff {
        /// The flavor.
        flavor: FlavorName,
        /// When new nodes may be provisioned again.
        until: Time,
    },
    /// The flavor has as many nodes as it may have.
    AtMaximum {
        /// The flavor.
        flavor: FlavorName,
        /// The maximum.
        max_nodes: u32,
    },
    /// All nodes that the flavors may still get would not suffice.
    NotEnough {
        /// The number of these nodes, by flavor.
        nodes: BTreeMap<FlavorName, u32>,
    },
    /// New nodes lack a label of the topology level that the gang requires.
    MissingTopologyLabel {
        /// The flavor.
        flavor: FlavorName,
        /// The key of the label.
        label: String,
    },
    /// The gang would not start with any number of new nodes.
    Unsuitable {
        /// The flavors of the new nodes.
        flavors: Vec<FlavorName>,
        /// What the gang would lack beside the new nodes.
        detail: Arc<WaitDetail>,
    },
    /// The queue would borrow quota for the gang, and gets new nodes only within its own quota.
    Borrowing {
        /// The queue.
        queue: QueueName,
    },
    /// The caller denies new nodes of the flavor to the gang.
    Denied {
        /// The reason, as a sentence that names the flavor.
        message: String,
    },
    /// The queue gets no new nodes.
    QueueNever {
        /// The queue.
        queue: QueueName,
    },
}

impl ProvisioningObstacle {
    /// Returns the position in the list of obstacles.
    pub(crate) const fn rank(&self) -> u8 {
        match self {
            Self::Delay { .. } => 0,
            Self::TooManyGangs { .. } => 1,
            Self::BackOff { .. } => 2,
            Self::AtMaximum { .. } => 3,
            Self::NotEnough { .. } => 4,
            Self::MissingTopologyLabel { .. } => 5,
            Self::Unsuitable { .. } => 6,
            Self::Borrowing { .. } => 7,
            Self::Denied { .. } => 8,
            Self::QueueNever { .. } => 9,
        }
    }
}
