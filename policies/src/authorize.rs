//! The [`AuthorizedJob`], the facts that the caller supplies, and the rules that no policy can
//! change.

use std::collections::BTreeMap;

use trellis_api::QueueSpec;
use trellis_compiler::{CompiledGroup, CompiledJob, Demand, PodPlacement};

use crate::cedar::Policies;
use crate::{By, Privilege, Refusal, Rule, Unlisted, selects, unlisted};

/// Values above are the system's (`scheduling.HighestUserDefinablePriority`).
const HIGHEST_USER_PRIORITY: i32 = 1_000_000_000;
/// PriorityClasses of this prefix are the system's (`scheduling.SystemPriorityClassPrefix`).
const SYSTEM_PREFIX: &str = "system-";

/// Facts of the cluster that policies look at.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Name of the queue that the job was compiled for.
    pub queue: &'a str,
    /// Spec of that queue.
    pub queue_spec: &'a QueueSpec,
    /// Name of the job's namespace.
    pub namespace: &'a str,
    /// Labels of that namespace.
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// The PriorityClass that the job's priority comes from: the job's own class, or the cluster's
    /// default. None: no class.
    pub priority_class: Option<&'a str>,
}

/// A compiled job that policies allow, whole. Only [`crate::cedar::authorize`]
/// makes one:
///
/// ```compile_fail,E0451
/// # fn forge(job: trellis_compiler::CompiledJob) {
/// let job = trellis_policies::AuthorizedJob {
///     job,
///     set: String::new(),
///     version: String::new(),
///     attempt: 1,
/// };
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AuthorizedJob {
    job: CompiledJob,
    set: String,
    version: String,
    attempt: i64,
}

impl AuthorizedJob {
    /// For the door of policies alone.
    pub(crate) fn new(job: CompiledJob, policies: &Policies, attempt: i64) -> Self {
        Self {
            set: policies.hash().to_owned(),
            version: policies.version(job.job().namespace()),
            job,
            attempt,
        }
    }

    /// The job that is allowed, with all that it becomes.
    #[must_use]
    pub fn compiled(&self) -> &CompiledJob {
        &self.job
    }

    /// Hash of the policies that allowed it ([`Policies::hash`]).
    #[must_use]
    pub fn set(&self) -> &str {
        &self.set
    }

    /// Version of the policies that allow it ([`Policies::version`]).
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The attempt that is allowed.
    #[must_use]
    pub fn attempt(&self) -> i64 {
        self.attempt
    }
}

/// Refusals that no policy can lift: facts of another queue or namespace, priorities reserved for
/// the system, and pod fields that are not listed.
pub(crate) fn always(job: &CompiledJob, facts: &Facts<'_>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for demand in job.demands() {
        match demand {
            Demand::UseQueue(queue) => refusals.extend(is_known(queue, job, facts)),
            Demand::UsePriorityClass(class) => refusals.extend(may_use_class(class)),
            _ => {}
        }
    }
    refusals.extend(facts.priority_class.and_then(may_use_class));
    refusals.extend(may_have_priority(job.priority()));
    refusals.extend(job.groups().iter().flat_map(stand_in_pods));
    refusals
}

/// Refusals for the unlisted fields of a group's pods. The pods differ only by name, rank and node,
/// so that looking at one is enough.
fn stand_in_pods(group: &CompiledGroup) -> Vec<Refusal> {
    let unlisted = unlisted(&group.pod(0, &PodPlacement::NOWHERE)).into_iter();
    let refusal = |Unlisted { path, remedy }| Refusal {
        by: By::Rule(Rule::FinalPod),
        demand: format!("the pods of task group {:?} have {path}", group.name()),
        remedy,
    };
    unlisted.map(refusal).collect()
}

/// True if the facts are those of this queue and of the job's namespace.
pub(crate) fn knows(queue: &str, job: &CompiledJob, facts: &Facts<'_>) -> bool {
    queue == facts.queue && job.job().namespace() == facts.namespace
}

/// True if the queue selects the namespace.
pub(crate) fn selects_namespace(facts: &Facts<'_>) -> bool {
    let selector = facts.queue_spec.namespace_selector.as_ref();
    selects(selector, facts.namespace_labels)
}

/// Refuses a queue whose facts the caller did not supply.
fn is_known(queue: &str, job: &CompiledJob, facts: &Facts<'_>) -> Option<Refusal> {
    (!knows(queue, job, facts)).then(|| Refusal {
        by: By::Rule(Rule::FactsOfTheJob),
        demand: uses_queue(job.job().namespace(), queue),
        remedy: "this is a fault of Trellis: report it".to_owned(),
    })
}

pub(crate) fn uses_queue(namespace: &str, queue: &str) -> String {
    format!("namespace {namespace:?} uses queue {queue:?}")
}

pub(crate) fn select(queue: &str) -> String {
    format!(
        "name a queue that selects the namespace, or have the namespaceSelector of queue {queue:?} select it"
    )
}

pub(crate) fn may_use_class(class: &str) -> Option<Refusal> {
    class.starts_with(SYSTEM_PREFIX).then(|| Refusal {
        by: By::Rule(Rule::UserPriority),
        demand: asks_for(class),
        remedy: "name one that does not start with system-, or none".to_owned(),
    })
}

pub(crate) fn asks_for(class: &str) -> String {
    format!("the job has the priority class {class:?}")
}

pub(crate) fn may_have_priority(priority: i32) -> Option<Refusal> {
    (priority > HIGHEST_USER_PRIORITY).then(|| Refusal {
        by: By::Rule(Rule::UserPriority),
        demand: format!("the job has the priority {priority}"),
        remedy: format!("use a priority class of at most {HIGHEST_USER_PRIORITY}"),
    })
}

pub(crate) fn uses(group: &str, privilege: &Privilege, field: &str) -> String {
    let privilege = privilege.to_string();
    format!("task group {group:?} uses the privilege {privilege:?} ({field} of its pods)")
}
