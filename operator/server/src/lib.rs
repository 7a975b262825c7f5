//! Servers of the operator: the admission webhook for jobs and policies, the visibility API, and
//! health and metrics. `serve` is their common base.

mod callers;
pub mod endpoint;
pub mod serve;
pub mod snapshot;
pub mod telemetry;
pub mod webhook;
