//! What the operator answers: the webhook before a job or a policy is stored, the visibility API to
//! who asks, and health and metrics. `serve` is what they serve by.

pub mod endpoint;
pub mod serve;
pub mod snapshot;
pub mod telemetry;
pub mod webhook;
