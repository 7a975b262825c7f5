//! Logs, metrics and health of the operator itself.
//!
//! `state` computes gauges on request, and `health` serves the kubelet's probes. Counters are in
//! `dispatch::counts`, and all metrics are listed in `dispatch::facts`.

mod gauges;
mod log;
pub mod probes;
#[cfg(test)]
mod tests;

pub use gauges::{ActiveLeader, LeaderSlot, OPENMETRICS_TYPE, render_metrics};
pub use log::{LogFormat, start_logging};
