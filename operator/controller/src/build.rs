//! The third step: resolve, compile and authorize the dereferenced job. Pure.

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

use super::evicting_decisions::EvictingDecisions;
use super::job_context::JobContext;
use super::validate;

/// Compiles the job with the queue and priority of its plan. None: the result differs from what was
/// planned and authorized then.
pub(super) fn compile_planned(
    job: ValidatedJob,
    plan: &Plan,
    seen: &JobContext,
    settings: &Arc<Settings>,
) -> Option<CompiledJob> {
    let found = CompileFacts {
        queue: plan.queue.as_deref()?,
        priority: plan.priority?,
        namespace_enforces_restricted: enforces_restricted(seen.namespace_labels.as_ref()?),
        services: &seen.services,
    };
    let profile = seen.profile.as_ref().ok()?.clone();
    let of_queue = &seen.queue_resources;
    let job = resolve(job, profile.as_deref(), found.queue, of_queue).ok()?;
    let surroundings = CompileContext::resolve(job.job(), found).ok()?;
    let surroundings = surroundings.with_profile(profile).at_stage(seen.stage());
    let compiled = compile(job, surroundings, settings);
    (compiled.hash() == plan.compiled).then_some(compiled)
}

/// The current limits of a placed job that does not compile any more. None: the job has no place,
/// or its namespace is not known and its earlier limits stay.
pub(super) fn limits_of_place(seen: &JobContext) -> Option<JobLimits> {
    let place = seen.placed_plan()?;
    let (version, quotas) = (seen.quotas.0, &seen.quotas.1);
    let queue = seen.placed_in.as_ref().map(|queue| &queue.spec);
    let whose = requester_name(seen.requester.as_ref(), place.requester.as_deref());
    let labels = seen.namespace_labels.as_ref()?;
    Some(JobLimits {
        version,
        draws: quota::placed_job_limits(quotas, &seen.job, place, labels, queue, whose),
        requester: whose.map(str::to_owned),
    })
}

/// Result of building a job.
pub(super) struct BuildOutcome {
    /// Decision of the policies. None: they were not evaluated.
    pub(super) policy: Option<PolicyOutcome>,
    /// The current stage as authorized, or why it stands still.
    pub(super) result: Result<AuthorizedJob, JobHold>,
    /// Why a later stage could not run. Then no new stage starts, and a running one continues.
    pub(super) blocked_stage: Option<BlockedStage>,
}

/// Builds the job, with the decision of the policies if the job is valid.
pub(super) fn build_job(seen: &JobContext, settings: &Arc<Settings>) -> BuildOutcome {
    let stands_still = |held| BuildOutcome {
        policy: None,
        result: Err(held),
        blocked_stage: None,
    };
    let job = match validate::validate_job(seen) {
        Ok(job) => job,
        Err(held) => return stands_still(held),
    };
    let around = match build_context(seen) {
        Ok(around) => around,
        Err(held) => return stands_still(held),
    };
    let job = match around.resolve(job) {
        Ok(job) => job,
        Err(held) => return stands_still(held),
    };
    let later = find_blocked_stage(&job, &around, settings);
    let (decided, result) = compile_and_authorize(job, &around, seen, settings);
    BuildOutcome {
        policy: decided,
        result,
        blocked_stage: later,
    }
}

/// Compiles and authorizes the job: the result if all objects that it names exist and policies
/// allow it, and the decision of the policies.
fn compile_and_authorize(
    job: ResolvedJob,
    around: &BuildContext<'_>,
    seen: &JobContext,
    settings: &Arc<Settings>,
) -> (Option<PolicyOutcome>, Result<AuthorizedJob, JobHold>) {
    let compiled = match around.compile(job, settings) {
        Ok(compiled) => compiled,
        Err(hold) => return (None, Err(hold)),
    };
    let verdict = around.limit(&compiled);
    let whose = around.requester_name().map(str::to_owned);
    // A stamp that may be forged never allows a job, and its absence never evicts one.
    let evicts = seen
        .policies
        .as_ref()
        .is_some_and(|p| p.has_evicting_policy());
    let doubt = seen.untrusted_stamp.as_ref().filter(|_| evicts);
    let believed = doubt.map(|doubt| around.decide_for(&doubt.requester, &compiled));
    let (hash, profile) = (compiled.hash().to_owned(), compiled_profile(&compiled));
    let (decision, outcome) = around.authorize(compiled);
    let requester = seen.requester.as_ref();
    let mut told = PolicyVerdict {
        requester: requester.map(|r| r.user.chars().take(MAX_REQUESTER_LENGTH).collect()),
        requester_unknown: seen
            .untrusted_stamp
            .as_ref()
            .map(|doubt| doubt.reason.clone()),
        ..decision.to_policy_verdict(&outcome)
    };
    let warnings = verdict.warnings.iter().map(ToString::to_string);
    told.warnings.extend(warnings);
    let result = around.combine_decisions(outcome, &verdict);
    let decided = PolicyOutcome {
        verdict: told,
        forbidden: decision.forbidden_demands(),
        evicting: EvictingDecisions::from_decisions(decision, believed, hash, profile),
        limits: Arc::new(JobLimits {
            version: around.quotas.0,
            draws: verdict.draws,
            requester: whose,
        }),
    };
    (Some(decided), result)
}

/// The profile with which a job is compiled, as its status shows it.
pub(super) fn compiled_profile(compiled: &CompiledJob) -> Option<JobProfile> {
    compiled.profile().map(|profile| JobProfile {
        name: profile.name().to_owned(),
        hash: profile.hash().to_owned(),
    })
}

fn build_context(seen: &JobContext) -> Result<BuildContext<'_>, JobHold> {
    let namespace_labels = seen.namespace_labels.as_ref();
    let namespace_labels =
        namespace_labels.ok_or_else(|| lookup::unknown_namespace(seen.namespace()))?;
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
        plan_requester: seen
            .placed_plan()
            .and_then(|plan| plan.requester.as_deref()),
        submission: SubmissionFacts {
            labels: seen.job.metadata.labels.as_ref().unwrap_or(&NO_LABELS),
            requester: seen.requester.as_ref(),
            attempt: seen.attempt(),
        },
    })
}

/// Characters of the requester's name that the status shows.
const MAX_REQUESTER_LENGTH: usize = 256;

/// Decision of the policies on a job.
#[derive(Clone, Debug)]
pub(super) struct PolicyOutcome {
    /// As the job's status shows it.
    pub(super) verdict: PolicyVerdict,
    /// Denied demands, by the id of the policy that forbids them.
    pub(super) forbidden: BTreeMap<String, (Enforcement, String)>,
    /// Why the job is evicted if it runs. None: no policy evicts it.
    pub(super) evicting: Option<EvictingDecisions>,
    /// Limits that the job draws on.
    pub(super) limits: Arc<JobLimits>,
}
