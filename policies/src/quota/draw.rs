//! What quota policies say of one job.

use trellis_api::quantity::Amount;
use trellis_api::quota_policy::QuotaEnforcement;

use super::limit::LimitId;
use crate::Refusal;

/// A limit that a job draws on once it has its place, or while it waits for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Which.
    pub limit: LimitId,
    /// How much may be held of it: jobs, hours, or the resource's units.
    pub max: Amount,
    /// What becomes of a job for which there is no room.
    pub enforcement: QuotaEnforcement,
}

/// What quota policies say of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Why it may never run as it is.
    pub denied: Vec<Refusal>,
    /// What is told of it, and does not keep it.
    pub warned: Vec<Refusal>,
    /// What it draws on.
    pub draws: Vec<Draw>,
}
