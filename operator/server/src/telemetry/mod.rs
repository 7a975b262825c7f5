//! Logs, metrics and health of the operator itself.
//!
//! `gauges` computes gauges on request, and `probes` serves the kubelet's probes. Counters are in
//! `dispatch::metrics`, and `dispatch::metric_catalog` lists all metrics.

mod gauges;
mod log;
pub mod probes;
#[cfg(test)]
mod tests;

pub use gauges::{ActiveLeader, LeaderSlot, OPENMETRICS_TYPE, render_metrics};
pub use log::{DEFAULT_FILTER, LogFormat, start_logging};
