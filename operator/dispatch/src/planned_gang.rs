//! Gangs of jobs that are not submitted yet.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;
use trellis_gang::AuthorizedAttempt;
use trellis_gang::quota::JobLimits;
use trellis_gang::quota::namespace_quota::QuotaDemand;
use trellis_scheduler::Gang;

/// An attempt that is not submitted, so that the scheduler does not know it.
#[derive(Clone, Debug)]
pub struct PlannedAttempt {
    /// The attempt with its job.
    pub run: AuthorizedAttempt,
    /// Limits that it would draw on.
    pub limits: Arc<JobLimits>,
}

/// A planned attempt, as the scheduler would know it.
#[derive(Clone, Debug)]
pub struct PlannedGang {
    /// The gang, as the scheduler would give it to the engine.
    pub gang: Gang,
    /// The ResourceQuotas of its namespace.
    pub quotas: Vec<Arc<ResourceQuota>>,
    /// Demands of gangs that start in its namespace, for pods that do not exist yet.
    pub promised: Vec<QuotaDemand>,
}
