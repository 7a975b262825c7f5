//! The second step: from a TrainingJob to a ValidatedJob.

use trellis_api::{Reason, ValidatedJob};
use trellis_gang::JobHold;

use super::job_context::JobContext;

/// The whole job with all its stages, if every rule holds. The API server has checked most rules.
pub(super) fn validate_job(seen: &JobContext) -> Result<ValidatedJob, JobHold> {
    ValidatedJob::try_from(seen.job_with_all_stages.as_ref().clone())
        .map_err(|violations| JobHold::refused(Reason::InvalidSpec, violations.to_string()))
}
