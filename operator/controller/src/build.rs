//! The third step: resolve, compile and authorize. One way for the controller and for
//! `trellis plan`, so that a plan cannot differ from what is then done. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use trellis_api::job::PolicyVerdict;
use trellis_api::pod_group::Plan;
use trellis_api::{Enforcement, QueueResources, Reason, ResolvedJob, TrainingQueue, ValidatedJob};
use trellis_compiler::{CompiledJob, Found, Profile, Settings, Surroundings, compile};
use trellis_gang::lookup::{Missing, enforces_restricted};
use trellis_gang::quota::JobLimits;
use trellis_gang::{Held, lookup, quota, unsupported};
use trellis_policies::cedar::{
    JobDecision, NotAuthorized, Policies, Requester, Submission, authorize, decide_job,
};
use trellis_policies::quota::{QuotaPolicies, Verdict};
use trellis_policies::{AuthorizedJob, Facts, Refusal};

use super::dereference::Surrounded;
use super::eviction::Violated;
use super::{builds, validate};

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
        quota::judge(self.quotas.1, compiled, labels, queue, self.whose())
    }

    /// User to whom quota policies count the job.
    fn whose(&self) -> Option<&str> {
        whose(self.submission.requester, self.was_of)
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
    pub(crate) fn decide_for(&self, requester: &Requester, compiled: &CompiledJob) -> JobDecision {
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

fn resolve(
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

/// Compiles the job with the queue and priority of its plan. None: the result differs from what was
/// planned and authorized then.
pub(super) fn planned(
    job: ValidatedJob,
    plan: &Plan,
    seen: &Surrounded,
    settings: &Arc<Settings>,
) -> Option<CompiledJob> {
    let found = Found {
        queue: plan.queue.as_deref()?,
        priority: plan.priority?,
        namespace_enforces_restricted: enforces_restricted(seen.namespace_labels.as_ref()?),
        services: &seen.services,
    };
    let profile = seen.profile.as_ref().ok()?.clone();
    let of_queue = &seen.queue_resources;
    let job = resolve(job, profile.as_deref(), found.queue, of_queue).ok()?;
    let surroundings = Surroundings::resolve(job.job(), found).ok()?;
    let surroundings = surroundings.with_profile(profile).at_stage(seen.stage());
    let compiled = compile(job, surroundings, settings);
    (compiled.hash() == plan.compiled).then_some(compiled)
}

fn whose<'a>(requester: Option<&'a Requester>, was_of: Option<&'a str>) -> Option<&'a str> {
    requester.map(|r| r.user.as_str()).or(was_of)
}

/// The current limits of a placed job that does not compile any more. None: the job has no place,
/// or its namespace is not known and its earlier limits stay.
pub(super) fn held_limits(seen: &Surrounded) -> Option<JobLimits> {
    let place = seen.place()?;
    let (version, quotas) = (seen.quotas.0, &seen.quotas.1);
    let queue = seen.placed_in.as_ref().map(|queue| &queue.spec);
    let whose = whose(seen.requester.as_ref(), place.requester.as_deref());
    let labels = seen.namespace_labels.as_ref()?;
    Some(JobLimits {
        version,
        draws: quota::held(quotas, &seen.job, place, labels, queue, whose),
        requester: whose.map(str::to_owned),
    })
}

/// Result of building a job.
pub(super) struct Outcome {
    /// Decision of the policies. None: they were not evaluated.
    pub(super) decided: Option<Decided>,
    /// The current stage as authorized, or why it stands still.
    pub(super) result: Result<AuthorizedJob, Held>,
    /// Why a later stage could not run. Then no new stage starts, and a running one continues.
    pub(super) later: Option<LaterStage>,
}

/// Why a later stage of a job could not run.
#[derive(Clone, Debug)]
pub struct LaterStage {
    /// As the job's status shows it.
    pub held: Held,
    /// Decision of the policies on that stage, if they were evaluated.
    pub(super) told: Option<PolicyVerdict>,
}

/// Builds the job, with the decision of the policies if the job is valid.
pub(super) fn outcome(seen: &Surrounded, settings: &Arc<Settings>) -> Outcome {
    let stands_still = |held| Outcome {
        decided: None,
        result: Err(held),
        later: None,
    };
    let job = match validate::job(seen) {
        Ok(job) => job,
        Err(held) => return stands_still(held),
    };
    let around = match in_its_queue(seen) {
        Ok(around) => around,
        Err(held) => return stands_still(held),
    };
    let job = match around.resolve(job) {
        Ok(job) => job,
        Err(missing) => return stands_still(missing.into()),
    };
    let later = later(&job, &around, settings);
    let (decided, result) = authorized(job, &around, seen, settings);
    Outcome {
        decided,
        result,
        later,
    }
}

/// Compiles and authorizes the job: the result if all objects that it names exist and policies
/// allow it, and the decision of the policies.
fn authorized(
    job: ResolvedJob,
    around: &BuildContext<'_>,
    seen: &Surrounded,
    settings: &Arc<Settings>,
) -> (Option<Decided>, Result<AuthorizedJob, Held>) {
    let compiled = match around.compile(job, settings) {
        Ok(compiled) => compiled,
        Err(missing) => return (None, Err(missing.into())),
    };
    let verdict = around.limit(&compiled);
    let whose = around.whose().map(str::to_owned);
    // A stamp that may be forged never allows a job, and its absence never evicts one.
    let evicts = seen.policies.as_ref().is_some_and(|p| p.evict());
    let doubt = seen.doubt.as_ref().filter(|_| evicts);
    let believed = doubt.map(|doubt| around.decide_for(&doubt.named, &compiled));
    let (hash, profile) = (compiled.hash().to_owned(), builds::profile(&compiled));
    let (decision, outcome) = around.authorize(compiled);
    let requester = seen.requester.as_ref();
    let mut told = PolicyVerdict {
        requester: requester.map(|r| r.user.chars().take(NAME_TOLD).collect()),
        requester_unknown: seen.doubt.as_ref().map(|doubt| doubt.why.clone()),
        ..decision.status(&outcome)
    };
    let warnings = verdict.warned.iter().map(ToString::to_string);
    told.warnings.extend(warnings);
    let result = around.settle(outcome, &verdict);
    let decided = Decided {
        told,
        forbidden: decision.forbidden(),
        violated: Violated::of(decision, believed, hash, profile),
        limits: Arc::new(JobLimits {
            version: around.quotas.0,
            draws: verdict.draws,
            requester: whose,
        }),
    };
    (Some(decided), result)
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
        let (held, told) = held_at(job, &around.at(stage), settings)?;
        let message = format!("stage {stage} of {stages}: {}", held.message);
        let held = Held { message, ..held };
        Some(LaterStage { held, told })
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
    let told = decision.status(&outcome);
    // An unusable quota policy holds the current stage, so it is not reported again for a later
    // one.
    let held = may(outcome, &verdict).err()?;
    Some((held, Some(told)))
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

fn in_its_queue(seen: &Surrounded) -> Result<BuildContext<'_>, Held> {
    let namespace_labels = seen.namespace_labels.as_ref();
    let namespace_labels =
        namespace_labels.ok_or_else(|| lookup::unseen_namespace(seen.namespace()))?;
    let queue = seen.queue.as_ref().map_err(Clone::clone)?;
    let (class, priority) = seen.priority.as_ref().map_err(Clone::clone)?;
    let profile = seen.profile.as_ref().map_err(Clone::clone)?;
    Ok(BuildContext {
        queue,
        queue_resources: &seen.queue_resources,
        class: class.as_deref(),
        priority: *priority,
        namespace_labels,
        services: &seen.services,
        profile: profile.as_ref(),
        stage: seen.stage(),
        policies: seen.policies.as_deref(),
        quotas: (seen.quotas.0, &seen.quotas.1),
        was_of: seen.place().and_then(|plan| plan.requester.as_deref()),
        submission: Submission {
            labels: seen.job.metadata.labels.as_ref().unwrap_or(&NO_LABELS),
            requester: seen.requester.as_ref(),
            attempt: seen.attempt(),
        },
    })
}

/// Characters of the requester's name that the status shows.
const NAME_TOLD: usize = 256;

/// Labels of an object that has none.
pub static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// Decision of the policies on a job.
#[derive(Clone, Debug)]
pub(super) struct Decided {
    /// As the job's status shows it.
    pub(super) told: PolicyVerdict,
    /// Denied demands, by the id of the policy that forbids them.
    pub(super) forbidden: BTreeMap<String, (Enforcement, String)>,
    /// Why the job is evicted if it runs. None: no policy evicts it.
    pub(super) violated: Option<Violated>,
    /// Limits that the job draws on.
    pub(super) limits: Arc<JobLimits>,
}
