//! The third step: resolves, compiles and authorizes the job, without I/O.

pub(super) mod cache;

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_api::job::{JobProfile, PolicyVerdict};
use trellis_api::pod_group::Plan;
use trellis_api::{Enforcement, ResolvedJob, ValidatedJob};
use trellis_compiler::{CompileContext, CompileFacts, CompiledJob, Settings, compile};
use trellis_gang::build::{
    BlockedStage, BuildContext, NO_LABELS, find_blocked_stage, requester_name, resolve,
};
use trellis_gang::lookup::enforces_restricted;
use trellis_gang::quota::JobLimits;
use trellis_gang::{JobHold, lookup, quota};
use trellis_policies::AuthorizedJob;
use trellis_policies::cedar::SubmissionFacts;

use super::eviction::decisions::EvictingDecisions;
use super::job_context::JobContext;
use super::validate;

/// Compiles the job with the queue and priority of its plan. Returns None if the result differs
/// from the compiled job that the plan was authorized for.
pub(super) fn compile_planned(
    job: ValidatedJob,
    plan: &Plan,
    job_context: &JobContext,
    settings: &Arc<Settings>,
) -> Option<CompiledJob> {
    let facts = CompileFacts {
        queue: plan.queue.as_deref()?,
        priority: plan.priority?,
        namespace_enforces_restricted: enforces_restricted(job_context.namespace_labels.as_ref()?),
        services: &job_context.services,
    };
    let profile = job_context.profile.as_ref().ok()?.clone();
    let queue_resources = &job_context.queue_resources;
    let job = resolve(job, profile.as_deref(), facts.queue, queue_resources).ok()?;
    let compile_context = CompileContext::resolve(job.job(), facts).ok()?;
    let compile_context = compile_context
        .with_profile(profile)
        .at_stage(job_context.stage());
    let compiled = compile(job, compile_context, settings);
    (compiled.hash() == plan.compiled).then_some(compiled)
}

/// Returns the current limits of a placed job that does not compile any more. Returns None if the
/// job has no place, or if its namespace is not known, so its earlier limits stay.
pub(super) fn limits_of_place(job_context: &JobContext) -> Option<JobLimits> {
    let place = job_context.placed_plan()?;
    let (version, quotas) = (job_context.quotas.0, &job_context.quotas.1);
    let queue = job_context.placed_in.as_ref().map(|queue| &queue.spec);
    let requester_name = requester_name(job_context.requester.as_ref(), place.requester.as_deref());
    let labels = job_context.namespace_labels.as_ref()?;
    Some(JobLimits {
        version,
        draws: quota::placed_job_limits(
            quotas,
            &job_context.job,
            place,
            labels,
            queue,
            requester_name,
        ),
        requester: requester_name.map(str::to_owned),
    })
}

/// Result of building a job.
pub(super) struct BuildOutcome {
    /// Decision of the policies. None if they were not evaluated.
    pub(super) policy: Option<PolicyOutcome>,
    /// The authorized job of the current stage, or why it may not start.
    pub(super) result: Result<AuthorizedJob, JobHold>,
    /// Why a later stage could not run. Then no new stage starts. A running stage continues.
    pub(super) blocked_stage: Option<BlockedStage>,
}

/// Builds the job, with the decision of the policies if the job is valid.
pub(super) fn build_job(job_context: &JobContext, settings: &Arc<Settings>) -> BuildOutcome {
    let on_hold = |hold| BuildOutcome {
        policy: None,
        result: Err(hold),
        blocked_stage: None,
    };
    let job = match validate::validate_job(job_context) {
        Ok(job) => job,
        Err(hold) => return on_hold(hold),
    };
    let context = match build_context(job_context) {
        Ok(context) => context,
        Err(hold) => return on_hold(hold),
    };
    let job = match context.resolve(job) {
        Ok(job) => job,
        Err(hold) => return on_hold(hold),
    };
    let blocked_stage = find_blocked_stage(&job, &context, settings);
    let (policy_outcome, result) = compile_and_authorize(job, &context, job_context, settings);
    BuildOutcome {
        policy: policy_outcome,
        result,
        blocked_stage,
    }
}

/// Compiles and authorizes the job. Returns the decision of the policies, if they were evaluated,
/// and the authorized job or why it may not start.
fn compile_and_authorize(
    job: ResolvedJob,
    context: &BuildContext<'_>,
    job_context: &JobContext,
    settings: &Arc<Settings>,
) -> (Option<PolicyOutcome>, Result<AuthorizedJob, JobHold>) {
    let compiled = match context.compile(job, settings) {
        Ok(compiled) => compiled,
        Err(hold) => return (None, Err(hold)),
    };
    let verdict = context.limit(&compiled);
    let requester_name = context.requester_name().map(str::to_owned);
    // The stamp names the requester. A stamp that may be forged allows no job. But a gang is
    // evicted only if policies also forbid it for the requester of that stamp.
    let evicts = job_context
        .policies
        .as_ref()
        .is_some_and(|p| p.has_evicting_policy());
    let untrusted = job_context.untrusted_stamp.as_ref().filter(|_| evicts);
    let stamp_decision =
        untrusted.map(|untrusted| context.decide_for(&untrusted.requester, &compiled));
    let (hash, profile) = (compiled.hash().to_owned(), compiled_profile(&compiled));
    let (decision, outcome) = context.authorize(compiled);
    let requester = job_context.requester.as_ref();
    let mut policy_verdict = PolicyVerdict {
        requester: requester.map(|r| r.user.chars().take(MAX_REQUESTER_LENGTH).collect()),
        requester_unknown: job_context
            .untrusted_stamp
            .as_ref()
            .map(|untrusted| untrusted.reason.clone()),
        ..decision.to_policy_verdict(&outcome)
    };
    let warnings = verdict.warnings.iter().map(ToString::to_string);
    policy_verdict.warnings.extend(warnings);
    let result = context.combine_decisions(outcome, &verdict);
    let policy_outcome = PolicyOutcome {
        verdict: policy_verdict,
        forbidden: decision.forbidden_demands(),
        evicting: EvictingDecisions::from_decisions(decision, stamp_decision, hash, profile),
        limits: Arc::new(JobLimits {
            version: context.quotas.0,
            draws: verdict.draws,
            requester: requester_name,
        }),
    };
    (Some(policy_outcome), result)
}

/// Returns the profile with which a job is compiled, in the form of the job's status.
pub(super) fn compiled_profile(compiled: &CompiledJob) -> Option<JobProfile> {
    compiled.profile().map(|profile| JobProfile {
        name: profile.name().to_owned(),
        hash: profile.hash().to_owned(),
    })
}

/// Returns the surroundings with which the job is compiled and judged, or why they are incomplete.
pub(super) fn build_context(job_context: &JobContext) -> Result<BuildContext<'_>, JobHold> {
    let namespace_labels = job_context.namespace_labels.as_ref();
    let namespace_labels =
        namespace_labels.ok_or_else(|| lookup::unknown_namespace(job_context.namespace()))?;
    let queue = job_context.queue.as_ref().map_err(Clone::clone)?;
    let (class, priority) = job_context.priority.as_ref().map_err(Clone::clone)?;
    let profile = job_context.profile.as_ref().map_err(Clone::clone)?;
    Ok(BuildContext {
        queue,
        queue_resources: &job_context.queue_resources,
        class: class.as_deref(),
        priority: *priority,
        namespace_labels,
        services: &job_context.services,
        profile: profile.as_ref(),
        stage: job_context.stage(),
        policies: job_context.policies.as_deref(),
        quotas: (job_context.quotas.0, &job_context.quotas.1),
        plan_requester: job_context
            .placed_plan()
            .and_then(|plan| plan.requester.as_deref()),
        submission: SubmissionFacts {
            labels: job_context
                .job
                .metadata
                .labels
                .as_ref()
                .unwrap_or(&NO_LABELS),
            requester: job_context.requester.as_ref(),
            attempt: job_context.attempt(),
        },
    })
}

/// Most characters of the requester's name in the status.
const MAX_REQUESTER_LENGTH: usize = 256;

/// Decision of the policies on a job.
#[derive(Clone, Debug)]
pub(super) struct PolicyOutcome {
    /// The decision in the form of the job's status.
    pub(super) verdict: PolicyVerdict,
    /// Denied demands, by the id of the policy that forbids them.
    pub(super) forbidden: BTreeMap<String, (Enforcement, String)>,
    /// The decisions that evict a running gang of the job. None if no policy evicts it.
    pub(super) evicting: Option<EvictingDecisions>,
    /// Limits that the job counts against.
    pub(super) limits: Arc<JobLimits>,
}
