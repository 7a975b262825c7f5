//! Logs, metrics and health of the operator itself.
//!
//! `state` computes gauges on request, and `health` serves the kubelet's probes. Counters are in
//! `dispatch::counts`, and all metrics are listed in `dispatch::facts`.

pub mod health;
mod log;
mod state;
#[cfg(test)]
mod tests;

pub use log::{LogFormat, log};
pub use state::{FORMAT, Lead, Leading, text};
