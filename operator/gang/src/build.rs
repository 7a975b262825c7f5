//! Resolves, compiles and authorizes a validated job in its surroundings. The controller and
//! `trellis plan` share this code, so a plan cannot differ from what the controller does.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use trellis_api::job::PolicyVerdict;
use trellis_api::{QueueResources, Reason, ResolvedJob, TrainingQueue, ValidatedJob};
use trellis_compiler::{CompiledJob, Found, Profile, Settings, Surroundings, compile};
use trellis_policies::cedar::{
    JobDecision, NotAuthorized, Policies, Requester, Submission, authorize, decide_job,
};
use trellis_policies::quota::{QuotaPolicies, Verdict};
use trellis_policies::{AuthorizedJob, Facts, Refusal};

use crate::lookup::{Missing, enforces_restricted};
use crate::{Held, quota, unsupported};

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
    pub profile: Option<&'a Arc<Profile>>,
    /// Current stage, from 1.
    pub stage: u32,
    /// Policies in force. None: they have not been read yet.
    pub policies: Option<&'a Policies>,
    /// Quota policies, and their version.
    pub quotas: (u64, &'a QuotaPolicies),
    /// Requester in the plan of the job's place, used when no stamp names one.
    pub was_of: Option<&'a str>,
    /// Facts about the job's submission.
    pub submission: Submission<'a>,
}

impl BuildContext<'_> {
    fn queue_name(&self) -> &str {
        self.queue.metadata.name.as_deref().unwrap_or_default()
    }

    /// The job with the CPU and memory of all its task groups.
    ///
    /// # Errors
    /// If a group has none of its own, and neither profile nor queue states any.
    pub fn resolve(&self, job: ValidatedJob) -> Result<ResolvedJob, Missing> {
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
    ) -> Result<CompiledJob, Missing> {
        let found = Found {
            queue: self.queue_name(),
            priority: self.priority,
            namespace_enforces_restricted: enforces_restricted(self.namespace_labels),
            services: self.services,
        };
        let surroundings = Surroundings::resolve(job.job(), found).map_err(|missing| Missing {
            reason: Reason::ServiceNotFound,
            message: missing.to_string(),
        })?;
        let surroundings = surroundings.with_profile(self.profile.cloned());
        Ok(compile(job, surroundings.at_stage(self.stage), settings))
    }

    /// Judges the job by the quota policies.
    pub fn limit(&self, compiled: &CompiledJob) -> Verdict {
        let (labels, queue) = (self.namespace_labels, &self.queue.spec);
        quota::judge(
            self.quotas.1,
            compiled,
            labels,
            queue,
            self.requester_name(),
        )
    }

    /// User to whom quota policies count the job.
    pub fn requester_name(&self) -> Option<&str> {
        requester_name(self.submission.requester, self.was_of)
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

    /// The job, if all decisions allow it.
    ///
    /// # Errors
    /// The first reason why the job may not run.
    pub fn settle(
        &self,
        outcome: Result<AuthorizedJob, NotAuthorized>,
        verdict: &Verdict,
    ) -> Result<AuthorizedJob, Held> {
        let job = may(outcome, verdict)?;
        unusable(self.quotas.1).map_or(Ok(job), Err)
    }

    /// The decision as if another requester had submitted the job.
    pub fn decide_for(&self, requester: &Requester, compiled: &CompiledJob) -> JobDecision {
        let facts = self.facts(compiled.job().namespace());
        let submission = Submission {
            requester: Some(requester),
            ..self.submission
        };
        decide_job(self.policies, compiled, &facts, &submission)
    }

    /// The same at another stage, in the first attempt that the stage can have.
    pub fn at(&self, stage: u32) -> Self {
        let before = i64::from(stage.saturating_sub(self.stage));
        let submission = Submission {
            attempt: self.submission.attempt.saturating_add(before),
            ..self.submission
        };
        Self {
            stage,
            submission,
            ..*self
        }
    }

    fn facts<'a>(&'a self, namespace: &'a str) -> Facts<'a> {
        Facts {
            queue: self.queue_name(),
            queue_spec: &self.queue.spec,
            namespace,
            namespace_labels: self.namespace_labels,
            priority_class: self.class,
        }
    }
}

/// The job with the CPU and memory of all its task groups.
///
/// # Errors
/// If a group has none of its own, and neither profile nor queue states any.
pub fn resolve(
    job: ValidatedJob,
    profile: Option<&Profile>,
    queue: &str,
    of_queue: &QueueResources,
) -> Result<ResolvedJob, Missing> {
    let profile = profile.map(Profile::valid);
    ResolvedJob::new(job, profile, queue, of_queue.clone()).map_err(|missing| Missing {
        reason: Reason::ResourcesMissing,
        message: missing.to_string(),
    })
}

/// The user to whom quota policies count a job: the requester that a trusted stamp names, else the
/// requester in the plan of the job's place.
pub fn requester_name<'a>(
    requester: Option<&'a Requester>,
    was_of: Option<&'a str>,
) -> Option<&'a str> {
    requester.map(|r| r.user.as_str()).or(was_of)
}

/// Why a later stage of a job could not run.
#[derive(Clone, Debug)]
pub struct LaterStage {
    /// As the job's status shows it.
    pub held: Held,
    /// Decision of the policies on that stage, if they were evaluated.
    pub verdict: Option<PolicyVerdict>,
}

/// Why a later stage of the job could not run. Found out now, because after the first stage it
/// would be too late.
pub fn later(
    job: &ResolvedJob,
    around: &BuildContext<'_>,
    settings: &Arc<Settings>,
) -> Option<LaterStage> {
    let stages = job.job().spec().stages();
    (around.stage.saturating_add(1)..=stages).find_map(|stage| {
        let (held, verdict) = held_at(job, &around.at(stage), settings)?;
        let message = format!("stage {stage} of {stages}: {}", held.message);
        let held = Held { message, ..held };
        Some(LaterStage { held, verdict })
    })
}

/// Why a stage could not run, and the decision of the policies on it.
fn held_at(
    job: &ResolvedJob,
    around: &BuildContext<'_>,
    settings: &Arc<Settings>,
) -> Option<(Held, Option<PolicyVerdict>)> {
    let compiled = match around.compile(job.clone(), settings) {
        Ok(compiled) => compiled,
        Err(missing) => return Some((missing.into(), None)),
    };
    let verdict = around.limit(&compiled);
    let (decision, outcome) = around.authorize(compiled);
    let status = decision.status(&outcome);
    // An unusable quota policy holds the current stage, so it is not reported again for a later
    // one.
    let held = may(outcome, &verdict).err()?;
    Some((held, Some(status)))
}

/// The job, if it is not denied.
fn may(
    outcome: Result<AuthorizedJob, NotAuthorized>,
    verdict: &Verdict,
) -> Result<AuthorizedJob, Held> {
    let job = outcome.map_err(|not| Held::from(&not))?;
    let held = over(&verdict.denied);
    let held = held.or_else(|| unsupported::of_job(job.compiled()).map(Held::from));
    held.map_or(Ok(job), Err)
}

/// A job that asks for more than its limits ever allow is refused until the job or a policy
/// changes.
fn over(denied: &[Refusal]) -> Option<Held> {
    let denied: Vec<_> = denied.iter().map(ToString::to_string).collect();
    let is_any = !denied.is_empty();
    is_any.then(|| Held::refused(Reason::QuotaPolicyExceeded, denied.join("; ")))
}

/// An unreadable quota policy may apply to any job, so nothing starts while there is one.
fn unusable(quotas: &QuotaPolicies) -> Option<Held> {
    let (name, why) = quotas.unusable().first()?;
    let message = format!("quota policy {name:?} does not take effect: {why}");
    Some(Held::waits(Reason::PolicyNotEvaluated, message))
}
