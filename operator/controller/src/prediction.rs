//! Predicts what the controller will decide on a job that is about to be stored: by the same steps,
//! from the caches, without a write. For the admission webhook.

use std::sync::Arc;

use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::{Reason, TrainingJob};
use trellis_cache::Cache;
use trellis_compiler::Settings;
use trellis_gang::key::Key;
use trellis_gang::quota::JobDemand;
use trellis_gang::{JobHold, quota};
use trellis_policies::cedar::{Policies, Requester};

use super::build::BuildOutcome;
use super::{build, job_context};

/// Prediction for a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobPrediction {
    /// Why the job will not start. None: no known reason.
    pub held: Option<JobHold>,
    /// Demands denied by policies whose enforcement is Warn.
    pub warnings: Vec<String>,
}

/// Predicts the decision on the job if `requester` stores it like this, under these policies.
pub fn predict_job(
    cache: &Cache,
    job: TrainingJob,
    requester: Option<Requester>,
    policies: Option<Arc<Policies>>,
    settings: &Arc<Settings>,
) -> JobPrediction {
    let status = job.status.as_ref();
    if status.is_some_and(TrainingJobStatus::has_ended) || job.spec.external_manager().is_some() {
        return JobPrediction::default();
    }
    let is_new = status.is_none();
    let phase = status.and_then(|status| status.phase);
    // Policies do not apply to a suspended job, and a running one continues.
    let is_left_alone =
        job.spec.is_suspended() || matches!(phase, Some(JobPhase::Starting | JobPhase::Running));
    let key = Key::from_meta(&job.metadata);
    let mut seen = job_context::read_job(cache, &key, Arc::new(job), None);
    seen.requester = requester;
    seen.policies = policies;
    let BuildOutcome {
        policy: decided,
        result,
        blocked_stage: later,
    } = build::build_job(&seen, settings);
    let later = later.map(|later| later.held);
    let held = match result.and_then(|job| later.map_or(Ok(job), Err)) {
        // For a stored job the scheduler decides, because the usage may include the job's own
        // share.
        Ok(job) if is_new && !is_left_alone => {
            let limits = decided.as_ref().map(|decided| &decided.limits.draws);
            let standing = cache.quotas.report();
            let lacks = limits.zip(standing.as_ref()).and_then(|(draws, standing)| {
                quota::find_exceeded_limit(draws, &JobDemand::from_job(job.compiled()), standing)
            });
            lacks.map(|message| JobHold::refused(Reason::QuotaPolicyExceeded, message))
        }
        Ok(_) => None,
        // An invalid spec is refused at once, not when the job is resumed.
        Err(held) if is_left_alone && !(is_new && held.reason == Reason::InvalidSpec) => {
            Some(JobHold::waiting(held.reason, held.message))
        }
        Err(held) => Some(held),
    };
    JobPrediction {
        held,
        warnings: decided.map(|d| d.verdict.warnings).unwrap_or_default(),
    }
}
