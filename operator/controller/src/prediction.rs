//! Predicts what the controller will decide on a job that is not stored: for the admission webhook,
//! and for plans. The prediction takes the same steps from the same caches, and writes nothing.

mod planned_job;

pub use planned_job::{UnstoredJob, build_unstored_job};

use std::sync::Arc;

use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::{Reason, TrainingJob};
use trellis_cache::Cache;
use trellis_compiler::Settings;
use trellis_gang::key::Key;
use trellis_gang::quota::JobDemand;
use trellis_gang::{JobHold, quota};
use trellis_policies::AuthorizedJob;
use trellis_policies::cedar::{Policies, Requester};

use super::build::{BuildOutcome, PolicyOutcome};
use super::job_context::JobContext;
use super::{build, job_context};

/// Prediction for a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobPrediction {
    /// Why the job will not start. None without a known reason.
    pub held: Option<JobHold>,
    /// Demands denied by policies whose enforcement is Warn.
    pub warnings: Vec<String>,
}

/// Predicts the decision of these policies on the job if `requester` stores it.
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
    // Policies do not apply to a suspended job, and a running job continues.
    let is_exempt =
        job.spec.is_suspended() || matches!(phase, Some(JobPhase::Starting | JobPhase::Running));
    let key = Key::from_meta(&job.metadata);
    let mut judged = judge(cache, &key, job, requester, policies, settings);
    if is_new && !is_exempt {
        judged.refuse_exceeded_limit(cache);
    }
    let hold = match judged.result {
        Ok(_) => None,
        // The invalid spec of a new job is refused at once, even if the job is suspended.
        Err(hold) if is_exempt && !(is_new && hold.reason == Reason::InvalidSpec) => {
            Some(JobHold::waiting(hold.reason, hold.message))
        }
        Err(hold) => Some(hold),
    };
    JobPrediction {
        held: hold,
        warnings: judged
            .policy
            .map(|d| d.verdict.warnings)
            .unwrap_or_default(),
    }
}

/// A job as the controller would judge it.
struct JudgedJob {
    job_context: JobContext,
    /// Decision of the policies. None if they were not evaluated.
    policy: Option<PolicyOutcome>,
    /// The authorized job, if all its stages may run.
    result: Result<AuthorizedJob, JobHold>,
}

fn judge(
    cache: &Cache,
    key: &Key,
    job: TrainingJob,
    requester: Option<Requester>,
    policies: Option<Arc<Policies>>,
    settings: &Arc<Settings>,
) -> JudgedJob {
    let mut job_context = job_context::read_job(cache, key, Arc::new(job), None);
    job_context.requester = requester;
    job_context.policies = policies;
    let BuildOutcome {
        policy,
        result,
        blocked_stage,
    } = build::build_job(&job_context, settings);
    let blocked_stage = blocked_stage.map(|stage| stage.hold);
    JudgedJob {
        job_context,
        policy,
        result: result.and_then(|job| blocked_stage.map_or(Ok(job), Err)),
    }
}

impl JudgedJob {
    /// Refuses the job if a limit that denies jobs has no room for it. For new jobs only: the usage of
    /// the limits may include a stored job.
    fn refuse_exceeded_limit(&mut self, cache: &Cache) {
        let Ok(job) = &self.result else { return };
        let limits = self.policy.as_ref().map(|policy| &policy.limits.draws);
        let report = cache.quotas.report();
        let exceeded = limits.zip(report.as_ref()).and_then(|(draws, report)| {
            quota::find_exceeded_limit(draws, &JobDemand::from_job(job.compiled()), report)
        });
        if let Some(message) = exceeded {
            self.result = Err(JobHold::refused(Reason::QuotaPolicyExceeded, message));
        }
    }
}
