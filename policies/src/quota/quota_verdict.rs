//! The verdict of quota policies on one job.

use trellis_api::quantity::Amount;
use trellis_api::quota_policy::QuotaEnforcement;

use super::limit_id::LimitId;
use crate::Refusal;

/// A limit that a job counts against, while it is placed or while it is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaDraw {
    /// The limit.
    pub limit: LimitId,
    /// Largest usage of the limit: jobs, hours, or the resource's units.
    pub max: Amount,
    /// Action on a job that exceeds the limit.
    pub enforcement: QuotaEnforcement,
}

/// The verdict of quota policies on one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaVerdict {
    /// Reasons why the job may never run as it is.
    pub refusals: Vec<Refusal>,
    /// Warnings, which do not keep the job from running.
    pub warnings: Vec<Refusal>,
    /// Limits that the job counts against.
    pub draws: Vec<QuotaDraw>,
}
