//! Resolves, compiles and authorizes a validated job in its surroundings. The controller and
//! `trellis plan` share this code, so a plan cannot differ from what the controller does.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use trellis_api::job::PolicyVerdict;
use trellis_api::{QueueResources, Reason, ResolvedJob, TrainingQueue, ValidatedJob};
use trellis_compiler::{
    CompileContext, CompileFacts, CompiledJob, HashedProfile, Settings, compile,
};
use trellis_policies::cedar::{
    JobDecision, NotAuthorized, Policies, Requester, SubmissionFacts, authorize, decide_job,
};
use trellis_policies::quota::{QuotaPolicies, QuotaVerdict};
use trellis_policies::{AuthorizedJob, ClusterFacts, Refusal};

use crate::explanation::unplaceable_job::refuse_unplaceable_job;
use crate::lookup::enforces_restricted;
use crate::{JobHold, quota};

/// Labels of an object that has none.
pub static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// Surroundings with which a job is compiled and judged.
#[derive(Clone, Copy)]
pub struct BuildContext<'a> {
    /// Queue of the job.
    pub queue: &'a TrainingQueue,
    /// Amounts per GPU that its queue and the queues above it state.
    pub queue_resources: &'a QueueResources,
    /// PriorityClass of the job.
    pub class: Option<&'a str>,
    /// Priority of the job.
    pub priority: i32,
    /// Labels of the job's namespace.
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// Services of its namespace that the job names.
    pub services: &'a BTreeMap<String, Service>,
    /// RuntimeProfile of the job.
    pub profile: Option<&'a Arc<HashedProfile>>,
    /// Current stage, from 1.
    pub stage: u32,
    /// Policies in force. None: they have not been read yet.
    pub policies: Option<&'a Policies>,
    /// Quota policies, and their version.
    pub quotas: (u64, &'a QuotaPolicies),
    /// Requester in the plan of the job's place, used when no stamp names one.
    pub plan_requester: Option<&'a str>,
    /// Facts about the job's submission.
    pub submission: SubmissionFacts<'a>,
}

impl BuildContext<'_> {
    fn queue_name(&self) -> &str {
        self.queue.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the job with the CPU and memory of all its task groups.
    ///
    /// # Errors
    /// If a group has none of its own, and neither profile nor queue states any.
    pub fn resolve(&self, job: ValidatedJob) -> Result<ResolvedJob, JobHold> {
        let profile = self.profile.map(AsRef::as_ref);
        resolve(job, profile, self.queue_name(), self.queue_resources)
    }

    /// Compiles the job.
    ///
    /// # Errors
    /// If a Service that the job names does not exist.
    pub fn compile(
        &self,
        job: ResolvedJob,
        settings: &Arc<Settings>,
    ) -> Result<CompiledJob, JobHold> {
        let found = CompileFacts {
            queue: self.queue_name(),
            priority: self.priority,
            namespace_enforces_restricted: enforces_restricted(self.namespace_labels),
            services: self.services,
        };
        let surroundings = CompileContext::resolve(job.job(), found)
            .map_err(|missing| JobHold::waiting(Reason::ServiceNotFound, missing.to_string()))?;
        let surroundings = surroundings.with_profile(self.profile.cloned());
        Ok(compile(job, surroundings.at_stage(self.stage), settings))
    }

    /// Judges the job by the quota policies.
    pub fn limit(&self, compiled: &CompiledJob) -> QuotaVerdict {
        let (labels, queue) = (self.namespace_labels, &self.queue.spec);
        quota::apply_policies(
            self.quotas.1,
            compiled,
            labels,
            queue,
            self.requester_name(),
        )
    }

    /// Returns the user to whom quota policies count the job.
    pub fn requester_name(&self) -> Option<&str> {
        requester_name(self.submission.requester, self.plan_requester)
    }

    /// Judges the job by the policies: whether it may run, with the decision on each of its
    /// demands.
    pub fn authorize(
        &self,
        compiled: CompiledJob,
    ) -> (JobDecision, Result<AuthorizedJob, NotAuthorized>) {
        let namespace = compiled.job().namespace().to_owned();
        authorize(
            self.policies,
            compiled,
            &self.facts(&namespace),
            &self.submission,
        )
    }

    /// Returns the job, if all decisions allow it.
    ///
    /// # Errors
    /// The first reason why the job may not run.
    pub fn combine_decisions(
        &self,
        outcome: Result<AuthorizedJob, NotAuthorized>,
        verdict: &QuotaVerdict,
    ) -> Result<AuthorizedJob, JobHold> {
        let job = allow_or_refuse(outcome, verdict)?;
        wait_for_readable_quotas(self.quotas.1).map_or(Ok(job), Err)
    }

    /// Returns the decision as if another requester had submitted the job.
    pub fn decide_for(&self, requester: &Requester, compiled: &CompiledJob) -> JobDecision {
        let facts = self.facts(compiled.job().namespace());
        let submission = SubmissionFacts {
            requester: Some(requester),
            ..self.submission
        };
        decide_job(self.policies, compiled, &facts, &submission)
    }

    /// Returns the same surroundings at another stage, in the first attempt that the stage can
    /// have.
    pub fn at_stage(&self, stage: u32) -> Self {
        let before = i64::from(stage.saturating_sub(self.stage));
        let submission = SubmissionFacts {
            attempt: self.submission.attempt.saturating_add(before),
            ..self.submission
        };
        Self {
            stage,
            submission,
            ..*self
        }
    }

    fn facts<'a>(&'a self, namespace: &'a str) -> ClusterFacts<'a> {
        ClusterFacts {
            queue: self.queue_name(),
            queue_spec: &self.queue.spec,
            namespace,
            namespace_labels: self.namespace_labels,
            priority_class: self.class,
        }
    }
}

/// Returns the job with the CPU and memory of all its task groups.
///
/// # Errors
/// If a group has none of its own, and neither profile nor queue states any.
pub fn resolve(
    job: ValidatedJob,
    profile: Option<&HashedProfile>,
    queue: &str,
    of_queue: &QueueResources,
) -> Result<ResolvedJob, JobHold> {
    let profile = profile.map(HashedProfile::validated);
    ResolvedJob::new(job, profile, queue, of_queue.clone())
        .map_err(|missing| JobHold::waiting(Reason::ResourcesMissing, missing.to_string()))
}

/// Returns the user to whom quota policies count a job: the requester that a trusted stamp names,
/// else the requester in the plan of the job's place.
pub fn requester_name<'a>(
    requester: Option<&'a Requester>,
    plan_requester: Option<&'a str>,
) -> Option<&'a str> {
    requester.map(|r| r.user.as_str()).or(plan_requester)
}

/// Why a later stage of a job could not run.
#[derive(Clone, Debug)]
pub struct BlockedStage {
    /// The reason, as the job's status shows it.
    pub hold: JobHold,
    /// Decision of the policies on that stage, if they were evaluated.
    pub verdict: Option<PolicyVerdict>,
}

/// Returns why a later stage of the job could not run. Checks this now, because after the first
/// stage it would be too late.
pub fn find_blocked_stage(
    job: &ResolvedJob,
    around: &BuildContext<'_>,
    settings: &Arc<Settings>,
) -> Option<BlockedStage> {
    let stages = job.job().spec().stage_count();
    (around.stage.saturating_add(1)..=stages).find_map(|stage| {
        let (hold, verdict) = find_stage_hold(job, &around.at_stage(stage), settings)?;
        let message = format!("stage {stage} of {stages}: {}", hold.message);
        let hold = JobHold { message, ..hold };
        Some(BlockedStage { hold, verdict })
    })
}

/// Returns why a stage could not run, and the decision of the policies on it.
fn find_stage_hold(
    job: &ResolvedJob,
    around: &BuildContext<'_>,
    settings: &Arc<Settings>,
) -> Option<(JobHold, Option<PolicyVerdict>)> {
    let compiled = match around.compile(job.clone(), settings) {
        Ok(compiled) => compiled,
        Err(hold) => return Some((hold, None)),
    };
    let verdict = around.limit(&compiled);
    let (decision, outcome) = around.authorize(compiled);
    let status = decision.to_policy_verdict(&outcome);
    // An unusable quota policy holds the current stage, so it is not reported again for a later
    // one.
    let hold = allow_or_refuse(outcome, &verdict).err()?;
    Some((hold, Some(status)))
}

/// Returns the job, if it is not denied.
fn allow_or_refuse(
    outcome: Result<AuthorizedJob, NotAuthorized>,
    verdict: &QuotaVerdict,
) -> Result<AuthorizedJob, JobHold> {
    let job = outcome.map_err(|not| JobHold::from(&not))?;
    let hold = refuse_over_limit(&verdict.refusals);
    let hold = hold.or_else(|| refuse_unplaceable_job(job.compiled()));
    hold.map_or(Ok(job), Err)
}

/// Refuses a job that asks for more than its limits ever allow, until the job or a policy changes.
fn refuse_over_limit(denied: &[Refusal]) -> Option<JobHold> {
    let denied: Vec<_> = denied.iter().map(ToString::to_string).collect();
    let is_any = !denied.is_empty();
    is_any.then(|| JobHold::refused(Reason::QuotaPolicyExceeded, denied.join("; ")))
}

/// Keeps the job waiting while a quota policy is unreadable, because that policy may apply to any
/// job.
fn wait_for_readable_quotas(quotas: &QuotaPolicies) -> Option<JobHold> {
    let (name, why) = quotas.unusable().first()?;
    let message = format!("quota policy {name:?} does not take effect: {why}");
    Some(JobHold::waiting(Reason::PolicyNotEvaluated, message))
}
