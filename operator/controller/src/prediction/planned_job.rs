//! A job for a plan.

use std::sync::Arc;

use tokio::time::Instant;
use trellis_api::job::AwaitedPods;
use trellis_api::{TrainingJob, ValidatedJob};
use trellis_cache::Cache;
use trellis_cache::policy::stamped_requester;
use trellis_compiler::{CompiledJob, Settings};
use trellis_dispatch::PlannedAttempt;
use trellis_gang::key::Key;
use trellis_gang::{AuthorizedAttempt, DesiredAttempt, JobHold};
use trellis_machine::clock;
use trellis_policies::cedar::{Policies, Requester};

use super::{JudgedJob, judge};
use crate::build;

/// A job that is not stored, built as the controller would build it.
pub struct UnstoredJob {
    /// The job of that name that is stored.
    pub existing: Option<Arc<TrainingJob>>,
    /// The compiled job, if all objects that it refers to exist.
    pub compiled: Option<CompiledJob>,
    /// The attempt for the scheduler, or why there would be none.
    pub attempt: Result<PlannedAttempt, JobHold>,
    /// Demands denied by policies whose enforcement is Warn.
    pub warnings: Vec<String>,
}

/// Builds the job as if `requester` stored it now. A change of a stored job keeps the job's number of
/// attempts, stage and place in the queue. A job that is stored in the same form keeps its requester.
pub fn build_unstored_job(
    cache: &Cache,
    mut job: TrainingJob,
    requester: Option<Requester>,
    policies: Option<Arc<Policies>>,
    settings: &Arc<Settings>,
) -> UnstoredJob {
    let key = Key::from_meta(&job.metadata);
    let existing = cache.jobs.get(&key);
    // Only the cluster knows these values. Those in a file are ignored.
    let stored = existing.as_deref();
    job.metadata.uid = stored.and_then(|stored| stored.metadata.uid.clone());
    job.metadata.generation = stored.and_then(|stored| stored.metadata.generation);
    job.status = stored.and_then(|stored| stored.status.clone());
    let unchanged = stored.filter(|stored| stored.spec == job.spec);
    let requester = match unchanged {
        Some(stored) if cache.stamping.forgery_doubt(&stored.metadata).is_some() => None,
        Some(stored) => stamped_requester(&stored.metadata),
        None => requester,
    };
    let mut judged = judge(cache, &key, job, requester, policies, settings);
    if stored.is_none() {
        judged.refuse_exceeded_limit(cache);
    }
    let warnings = judged.policy.as_ref();
    let warnings = warnings.map(|policy| policy.verdict.warnings.clone());
    UnstoredJob {
        compiled: compiled(&judged, settings),
        warnings: warnings.unwrap_or_default(),
        attempt: to_attempt(judged, existing.as_deref()),
        existing,
    }
}

/// Returns the compiled job, even if it may not run.
fn compiled(judged: &JudgedJob, settings: &Arc<Settings>) -> Option<CompiledJob> {
    if let Ok(job) = &judged.result {
        return Some(job.compiled().clone());
    }
    let job = judged.job_context.job_with_all_stages.as_ref().clone();
    let context = build::build_context(&judged.job_context).ok()?;
    let job = context.resolve(ValidatedJob::try_from(job).ok()?).ok()?;
    context.compile(job, settings).ok()
}

fn to_attempt(
    judged: JudgedJob,
    existing: Option<&TrainingJob>,
) -> Result<PlannedAttempt, JobHold> {
    let JudgedJob {
        job_context,
        policy,
        result,
    } = judged;
    let job = result?;
    let volumes = job_context.volumes.clone()?;
    let queued = existing.and_then(|job| {
        let queued = job.status.as_ref().and_then(|s| s.queued_time.as_ref());
        queued.or(job.metadata.creation_timestamp.as_ref())
    });
    let attempt = DesiredAttempt {
        number: job_context.attempt(),
        submitted: queued.map_or_else(clock::now, |time| time.0),
        not_before: None,
        excluded_nodes: Vec::new(),
        suspect_nodes: Vec::new(),
        hurry: false,
        checkpoint: None,
        awaited: AwaitedPods::default(),
    };
    Ok(PlannedAttempt {
        run: AuthorizedAttempt {
            attempt,
            job: Arc::new(job),
            read_at: Instant::now(),
            uid: job_context.uid().to_owned(),
            preempted: false,
            never_preempts: job_context.never_preempts,
            volumes,
        },
        limits: policy.map(|policy| policy.limits).unwrap_or_default(),
    })
}
