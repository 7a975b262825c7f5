//! Queries of the caller. `queries` has gangs, their places and usage, `queue_usage` the numbers in
//! the status of queues, `domain_totals` the free domains, and `node_report` how nodes fit a gang.
//! `trial` decides about a gang without changing anything.

mod domain_totals;
mod node_report;
mod queries;
mod queue_usage;
mod trial;

pub use domain_totals::DomainTotals;
pub use queue_usage::{QueueMemory, QueueUsage, QueueUsageLine, ResourceTotals};
