//! Answers of the scheduler to queries.

use std::collections::BTreeMap;

use trellis_scheduler::{
    DomainTotals, QueueCounts, QueueMemory, QueueUsage, ResourceName, ResourceTotals,
};

/// Usage of a queue.
#[derive(Clone, Debug, Default)]
pub struct QueueReport {
    /// Numbers of waiting jobs and of jobs that hold a place.
    pub counts: QueueCounts,
    /// Resources that the jobs hold. None: the queue is not known (yet).
    pub usage: Option<QueueUsage>,
    /// Past usage of the queue.
    pub memory: Option<QueueMemory>,
}

/// Totals of the cluster in the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TotalsReport {
    /// Totals of the schedulable nodes.
    pub by_resource: BTreeMap<ResourceName, ResourceTotals>,
    /// Domains of the topologies.
    pub domains: Vec<DomainTotals>,
    /// Number of limits whose account in the engine has differed from a recount for long.
    pub wrong_limits: usize,
}
