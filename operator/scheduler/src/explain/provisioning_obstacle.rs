//! Why no nodes are provisioned for a gang that lacks nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::WaitDetail;
use crate::ids::{FlavorName, QueueName, ResourceName};
use crate::time::Time;

/// Why no nodes are provisioned for a gang that lacks nodes. The order of the variants is their
/// distance from an order of nodes, the nearest first. A flavor assignment has its farthest obstacle,
/// and the engine reports the nearest one of all assignments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvisioningObstacle {
    /// The delay of the queue is not over.
    Delay {
        /// The new nodes with which the gang would start, by flavor.
        nodes: BTreeMap<FlavorName, u32>,
        /// How long the gang must have lacked only nodes.
        after: Duration,
    },
    /// The maximum number of gangs already waits for new nodes of the flavor.
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
    /// With new nodes, the gang would wait for this reason, such as a reservation.
    StillWaits {
        /// The reason.
        detail: Arc<WaitDetail>,
    },
    /// The flavor has as many nodes as it may have, or more.
    AtMaximum {
        /// The flavor.
        flavor: FlavorName,
        /// Its nodes.
        nodes: u32,
        /// The maximum.
        max_nodes: u32,
    },
    /// The gang needs more new nodes than the flavors may get.
    NotEnough {
        /// The new nodes that the flavors may get.
        nodes: BTreeMap<FlavorName, PermittedNodes>,
    },
    /// New nodes lack a label of a topology level that the gang requires, or whose domains hold its
    /// slices.
    MissingTopologyLabel {
        /// The flavor.
        flavor: FlavorName,
        /// The key of the label.
        label: String,
    },
    /// New nodes lack a label that the gang selects.
    MissingLabel {
        /// The flavor.
        flavor: FlavorName,
        /// The key of the label.
        key: String,
        /// The value of the label.
        value: String,
    },
    /// The node affinity of the gang does not allow new nodes.
    NodeAffinity {
        /// The flavor.
        flavor: FlavorName,
    },
    /// New nodes have a taint that the gang does not tolerate.
    Taint {
        /// The flavor.
        flavor: FlavorName,
        /// The taint, as `kubectl` writes it.
        taint: String,
    },
    /// A pod requests more than a new node offers.
    PodTooLarge {
        /// The flavor.
        flavor: FlavorName,
        /// The resource.
        resource: ResourceName,
        /// Units of the resource that the pod needs.
        needs: i64,
        /// Units of the resource on a new node.
        offered: i64,
    },
    /// The caller denies new nodes of the flavor to the gang.
    Denied {
        /// The reason, as a sentence that names the flavor.
        message: String,
    },
    /// The queue would borrow quota for the gang, and permits new nodes only within its own quota.
    Borrowing {
        /// The queue.
        queue: QueueName,
    },
    /// The queue permits no new nodes.
    QueueNever {
        /// The queue.
        queue: QueueName,
    },
}

/// The number of new nodes that a flavor may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermittedNodes {
    /// The new nodes.
    pub count: u32,
    /// How many of them are provisioned for other gangs.
    pub on_order: u32,
}

impl ProvisioningObstacle {
    /// Returns the distance from an order of nodes.
    pub(crate) const fn distance(&self) -> u8 {
        match self {
            Self::Delay { .. } => 0,
            Self::TooManyGangs { .. } => 1,
            Self::BackOff { .. } => 2,
            Self::StillWaits { .. } => 3,
            Self::AtMaximum { .. } => 4,
            Self::NotEnough { .. } => 5,
            Self::MissingTopologyLabel { .. } => 6,
            Self::MissingLabel { .. } => 7,
            Self::NodeAffinity { .. } => 8,
            Self::Taint { .. } => 9,
            Self::PodTooLarge { .. } => 10,
            Self::Denied { .. } => 11,
            Self::Borrowing { .. } => 12,
            Self::QueueNever { .. } => 13,
        }
    }
}
