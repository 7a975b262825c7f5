//! The second step: from a TrainingJob to a ValidatedJob.

use trellis_api::{Reason, ValidatedJob};
use trellis_gang::Held;

use super::dereference::Surrounded;

/// The whole job with all its stages, if every rule holds. The API server has checked most rules.
pub(super) fn job(seen: &Surrounded) -> Result<ValidatedJob, Held> {
    ValidatedJob::try_from(seen.whole.as_ref().clone())
        .map_err(|violations| Held::refused(Reason::InvalidSpec, violations.to_string()))
}
