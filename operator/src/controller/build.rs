//! The third step: compile and authorize. One way for the controller and for
//! `trellis plan`, so that a plan cannot differ from what is then done. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use trellis_api::job::{JobPhase, JobPolicy};
use trellis_api::pod_group::Plan;
use trellis_api::{Enforcement, Queue, Reason, ValidatedJob};
use trellis_compiler::{CompiledJob, Found, Settings, Surroundings, compile};
use trellis_policies::cedar::{JobDecision, NotAuthorized, Policies, Submission, authorize};
use trellis_policies::{AuthorizedJob, Facts};

use super::dereference::{Surrounded, waits};
use super::lifecycle::Standing;
use super::lookup::{Missing, enforces_restricted};

/// What a job is compiled with and judged by, beside itself.
pub(crate) struct Around<'a> {
    /// Its queue.
    pub(crate) queue: &'a Queue,
    /// Its PriorityClass.
    pub(crate) class: Option<&'a str>,
    /// Its priority.
    pub(crate) priority: i32,
    /// Labels of its namespace.
    pub(crate) namespace_labels: &'a BTreeMap<String, String>,
    /// The Services of its namespace that it names.
    pub(crate) services: &'a BTreeMap<String, Service>,
    /// The policies that decide. None: they have not been read yet.
    pub(crate) policies: Option<&'a Policies>,
    /// What is known of the job beside its spec.
    pub(crate) submission: Submission<'a>,
}

impl Around<'_> {
    fn queue_name(&self) -> &str {
        self.queue.metadata.name.as_deref().unwrap_or_default()
    }

    /// What the job becomes.
    ///
    /// # Errors
    /// If a Service that it names is not there.
    pub(crate) fn compile(
        &self,
        job: ValidatedJob,
        settings: &Arc<Settings>,
    ) -> Result<CompiledJob, Missing> {
        let found = Found {
            queue: self.queue_name(),
            priority: self.priority,
            namespace_enforces_restricted: enforces_restricted(self.namespace_labels),
            services: self.services,
        };
        let surroundings = Surroundings::resolve(&job, found).map_err(|missing| Missing {
            reason: Reason::ServiceNotFound,
            message: missing.to_string(),
        })?;
        Ok(compile(job, surroundings, settings))
    }

    /// Whether it may, and what is decided about each of its demands.
    pub(crate) fn authorize(
        &self,
        compiled: CompiledJob,
    ) -> (JobDecision, Result<AuthorizedJob, NotAuthorized>) {
        let namespace = compiled.job().namespace().to_owned();
        let facts = Facts {
            queue: self.queue_name(),
            queue_spec: &self.queue.spec,
            namespace: &namespace,
            namespace_labels: self.namespace_labels,
            priority_class: self.class,
        };
        authorize(self.policies, compiled, &facts, &self.submission)
    }
}

/// What the job was compiled into when it was planned, if it can still be told: by the plan's own
/// queue and priority, and only if the very same comes out. It was authorized then.
pub(super) fn planned(
    job: ValidatedJob,
    plan: &Plan,
    seen: &Surrounded,
    settings: &Arc<Settings>,
) -> Option<CompiledJob> {
    let found = Found {
        queue: plan.queue.as_deref()?,
        priority: plan.priority?,
        namespace_enforces_restricted: enforces_restricted(&seen.namespace_labels),
        services: &seen.services,
    };
    let surroundings = Surroundings::resolve(&job, found).ok()?;
    let compiled = compile(job, surroundings, settings);
    (compiled.hash() == plan.compiled).then_some(compiled)
}

/// What the job becomes, if all that it names is there and policy allows it, and what policies
/// have decided.
pub(super) fn authorized(
    job: ValidatedJob,
    seen: &Surrounded,
    settings: &Arc<Settings>,
) -> (Option<Decided>, Result<AuthorizedJob, Standing>) {
    let compiled = match in_its_queue(seen) {
        Ok(around) => around
            .compile(job, settings)
            .map_err(waits)
            .map(|compiled| (around, compiled)),
        Err(standing) => Err(standing),
    };
    let (around, compiled) = match compiled {
        Ok(compiled) => compiled,
        Err(standing) => return (None, Err(standing)),
    };
    let (decision, outcome) = around.authorize(compiled);
    let requester = seen.requester.as_ref();
    let decided = Decided {
        told: JobPolicy {
            requester: requester.map(|r| r.user.chars().take(NAME_TOLD).collect()),
            requester_unknown: seen.doubt.clone(),
            ..decision.status(&outcome)
        },
        forbidden: decision.forbidden(),
    };
    (Some(decided), outcome.map_err(|not| held(&not)))
}

fn in_its_queue(seen: &Surrounded) -> Result<Around<'_>, Standing> {
    let queue = seen.queue.as_ref().map_err(Clone::clone)?;
    let (class, priority) = seen.priority.as_ref().map_err(Clone::clone)?;
    Ok(Around {
        queue,
        class: class.as_deref(),
        priority: *priority,
        namespace_labels: &seen.namespace_labels,
        services: &seen.services,
        policies: seen.policies.as_deref(),
        submission: Submission {
            labels: seen.job.metadata.labels.as_ref().unwrap_or(&NO_LABELS),
            requester: seen.requester.as_ref(),
            attempt: seen.attempt(),
        },
    })
}

/// Characters that are told of the name of who asks.
const NAME_TOLD: usize = 256;

/// Labels of an object that has none.
pub(crate) static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// What is denied is refused until the job or a policy changes; what nobody can decide waits.
fn held(not: &NotAuthorized) -> Standing {
    Standing::Held {
        phase: match not {
            NotAuthorized::Denied(_) => JobPhase::Refused,
            NotAuthorized::Undecided { .. } => JobPhase::Waiting,
        },
        reason: not.reason(),
        message: not.to_string(),
    }
}

/// What policies have decided about a job.
#[derive(Clone, Debug)]
pub(super) struct Decided {
    /// As its status tells it.
    pub(super) told: JobPolicy,
    /// What is denied, by the id of each policy that forbids it.
    pub(super) forbidden: BTreeMap<String, (Enforcement, String)>,
}
