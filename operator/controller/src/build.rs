//! The third step: resolve, compile and authorize the dereferenced job. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_api::job::PolicyVerdict;
use trellis_api::pod_group::Plan;
use trellis_api::{Enforcement, ResolvedJob, ValidatedJob};
use trellis_compiler::{CompiledJob, Found, Settings, Surroundings, compile};
use trellis_gang::build::{BuildContext, LaterStage, NO_LABELS, later, requester_name, resolve};
use trellis_gang::lookup::enforces_restricted;
use trellis_gang::quota::JobLimits;
use trellis_gang::{Held, lookup, quota};
use trellis_policies::AuthorizedJob;
use trellis_policies::cedar::Submission;

use super::dereference::Surrounded;
use super::eviction::Violated;
use super::{builds, validate};

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

/// The current limits of a placed job that does not compile any more. None: the job has no place,
/// or its namespace is not known and its earlier limits stay.
pub(super) fn held_limits(seen: &Surrounded) -> Option<JobLimits> {
    let place = seen.place()?;
    let (version, quotas) = (seen.quotas.0, &seen.quotas.1);
    let queue = seen.placed_in.as_ref().map(|queue| &queue.spec);
    let whose = requester_name(seen.requester.as_ref(), place.requester.as_deref());
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
    let whose = around.requester_name().map(str::to_owned);
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
