//! The third step: compile and authorize. Pure.

use trellis_api::job::JobPhase;
use trellis_api::{Reason, ValidatedJob};
use trellis_compiler::{Found, Settings, Surroundings, compile};
use trellis_policies::{AuthorizedJob, Facts, authorize};

use super::dereference::{Surrounded, enforces_restricted};
use super::lifecycle::Standing;

/// What the job becomes, if all that it names is there and policy allows it.
pub(super) fn authorized(
    job: ValidatedJob,
    seen: &Surrounded,
    settings: &Settings,
) -> Result<AuthorizedJob, Standing> {
    let queue = seen.queue.as_ref().map_err(Clone::clone)?;
    let (class, priority) = seen.priority.as_ref().map_err(Clone::clone)?;
    let queue_name = queue.metadata.name.as_deref().unwrap_or_default();
    let found = Found {
        queue: queue_name,
        priority: *priority,
        namespace_enforces_restricted: enforces_restricted(&seen.namespace_labels),
        services: &seen.services,
    };
    let surroundings = Surroundings::resolve(&job, found).map_err(|missing| Standing::Held {
        phase: JobPhase::Waiting,
        reason: Reason::ServiceNotFound,
        message: missing.to_string(),
    })?;
    let namespace = job.namespace().to_owned();
    let compiled = compile(job, surroundings, settings);
    let facts = Facts {
        queue: queue_name,
        queue_spec: &queue.spec,
        namespace: &namespace,
        namespace_labels: &seen.namespace_labels,
        priority_class: class.as_deref(),
    };
    authorize(compiled, &facts).map_err(|denial| Standing::Held {
        phase: JobPhase::Refused,
        reason: Reason::PolicyDenied,
        message: denial.to_string(),
    })
}
