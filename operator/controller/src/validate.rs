//! The second step: from a TrainingJob to a ValidatedJob.

use trellis_api::{Reason, ValidatedJob};
use trellis_gang::JobHold;

use super::job_context::JobContext;

/// Validates the job with all its stages. The API server has checked most rules already.
pub(super) fn validate_job(job_context: &JobContext) -> Result<ValidatedJob, JobHold> {
    ValidatedJob::try_from(job_context.job_with_all_stages.as_ref().clone())
        .map_err(|violations| JobHold::refused(Reason::InvalidSpec, violations.to_string()))
}
