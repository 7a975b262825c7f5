//! Servers of the operator: the admission webhook for jobs and policies, the visibility API, and
//! health and metrics. `serve` is their common base.

mod callers;
pub mod endpoint;
#[cfg(feature = "fixtures")]
pub mod fixtures;
pub mod serve;
pub mod snapshot;
pub mod telemetry;
pub mod webhook;
