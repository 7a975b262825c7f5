//! The second step: from a TrainingJob to a ValidatedJob.

use trellis_api::job::JobPhase;
use trellis_api::{Reason, ValidatedJob};

use super::dereference::Surrounded;
use super::lifecycle::Standing;

/// The whole job, of all stages, if every rule holds for it. The API server has checked most of them.
pub(super) fn job(seen: &Surrounded) -> Result<ValidatedJob, Standing> {
    ValidatedJob::try_from(seen.whole.as_ref().clone()).map_err(|violations| Standing::Held {
        phase: JobPhase::Refused,
        reason: Reason::InvalidSpec,
        message: violations.to_string(),
    })
}
