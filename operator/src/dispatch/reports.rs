//! What the scheduler answers to those who ask how things stand.

use std::collections::BTreeMap;

use trellis_scheduler::{QueueCounts, QueueMemory, QueueStanding, ResourceName, Totals};

/// How a queue stands.
#[derive(Clone, Debug, Default)]
pub struct QueueReport {
    /// Jobs that wait and hold a place.
    pub counts: QueueCounts,
    /// What they hold. None: the queue is not known (yet).
    pub standing: Option<QueueStanding>,
    /// What they have held.
    pub memory: Option<QueueMemory>,
}

/// What there is, as the engine has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TotalsReport {
    /// Of the nodes that take pods.
    pub by_resource: BTreeMap<ResourceName, Totals>,
    /// Limits of which the engine's account has for long not been what is counted anew.
    pub wrong_limits: usize,
}
