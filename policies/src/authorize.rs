//! The [`AuthorizedJob`], the facts that the caller supplies, and the rules that no policy can
//! change.

use std::collections::BTreeMap;

use trellis_api::QueueSpec;
use trellis_compiler::{CompiledGroup, CompiledJob, Demand, PodPlacement};

use crate::cedar::Policies;
use crate::{DenialSource, FixedRule, Privilege, Refusal, UnlistedField, selects, unlisted_fields};

/// Values above are the system's (`scheduling.HighestUserDefinablePriority`).
const HIGHEST_USER_PRIORITY: i32 = 1_000_000_000;
/// PriorityClasses of this prefix are the system's (`scheduling.SystemPriorityClassPrefix`).
const SYSTEM_PREFIX: &str = "system-";

/// Facts of the cluster that policies look at.
#[derive(Clone, Copy, Debug)]
pub struct ClusterFacts<'a> {
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
///     denied_node_orders: Default::default(),
/// };
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AuthorizedJob {
    job: CompiledJob,
    set_hash: String,
    version: String,
    attempt: i64,
    denied_node_orders: BTreeMap<String, String>,
}

impl AuthorizedJob {
    /// For the door of policies alone.
    pub(crate) fn new(
        job: CompiledJob,
        policies: &Policies,
        attempt: i64,
        denied_node_orders: BTreeMap<String, String>,
    ) -> Self {
        Self {
            denied_node_orders,
            set_hash: policies.hash().to_owned(),
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
    pub fn set_hash(&self) -> &str {
        &self.set_hash
    }

    /// Version of the policies that allow it ([`Policies::version`]).
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The flavors of which the job gets no new nodes, and why: policies do not permit it.
    #[must_use]
    pub fn denied_node_orders(&self) -> &BTreeMap<String, String> {
        &self.denied_node_orders
    }

    /// The attempt that is allowed.
    #[must_use]
    pub fn attempt(&self) -> i64 {
        self.attempt
    }
}

/// Refusals that no policy can lift: facts of another queue or namespace, priorities reserved for
/// the system, and pod fields that are not listed.
pub(crate) fn fixed_refusals(job: &CompiledJob, facts: &ClusterFacts<'_>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for demand in job.demands() {
        match demand {
            Demand::UseQueue(queue) => refusals.extend(refuse_unknown_queue(queue, job, facts)),
            Demand::UsePriorityClass(class) => refusals.extend(refuse_system_class(class)),
            _ => {}
        }
    }
    refusals.extend(facts.priority_class.and_then(refuse_system_class));
    refusals.extend(refuse_system_priority(job.priority()));
    refusals.extend(job.groups().iter().flat_map(refuse_unlisted_fields));
    refusals
}

/// Refusals for the unlisted fields of a group's pods. The pods differ only by name, rank and node,
/// so that looking at one is enough.
fn refuse_unlisted_fields(group: &CompiledGroup) -> Vec<Refusal> {
    let unlisted = unlisted_fields(&group.pod(0, &PodPlacement::UNPLACED)).into_iter();
    let refusal = |UnlistedField { path, remedy }| Refusal {
        source: DenialSource::Rule(FixedRule::FinalPod),
        demand: format!("the pods of task group {:?} have {path}", group.name()),
        remedy,
    };
    unlisted.map(refusal).collect()
}

/// True if the facts are those of this queue and of the job's namespace.
pub(crate) fn facts_match(queue: &str, job: &CompiledJob, facts: &ClusterFacts<'_>) -> bool {
    queue == facts.queue && job.job().namespace() == facts.namespace
}

/// True if the queue selects the namespace.
pub(crate) fn queue_selects_namespace(facts: &ClusterFacts<'_>) -> bool {
    let selector = facts.queue_spec.namespace_selector.as_ref();
    selects(selector, facts.namespace_labels)
}

/// Refuses a queue whose facts the caller did not supply.
fn refuse_unknown_queue(
    queue: &str,
    job: &CompiledJob,
    facts: &ClusterFacts<'_>,
) -> Option<Refusal> {
    (!facts_match(queue, job, facts)).then(|| Refusal {
        source: DenialSource::Rule(FixedRule::FactsOfTheJob),
        demand: describe_queue_use(job.job().namespace(), queue),
        remedy: "this is a fault of Trellis: report it".to_owned(),
    })
}

pub(crate) fn describe_queue_use(namespace: &str, queue: &str) -> String {
    format!("namespace {namespace:?} uses queue {queue:?}")
}

pub(crate) fn queue_remedy(queue: &str) -> String {
    format!(
        "name a queue that selects the namespace, or have the namespaceSelector of queue {queue:?} select it"
    )
}

pub(crate) fn refuse_system_class(class: &str) -> Option<Refusal> {
    class.starts_with(SYSTEM_PREFIX).then(|| Refusal {
        source: DenialSource::Rule(FixedRule::UserPriority),
        demand: describe_priority_class(class),
        remedy: "name one that does not start with system-, or none".to_owned(),
    })
}

pub(crate) fn describe_priority_class(class: &str) -> String {
    format!("the job has the priority class {class:?}")
}

pub(crate) fn refuse_system_priority(priority: i32) -> Option<Refusal> {
    (priority > HIGHEST_USER_PRIORITY).then(|| Refusal {
        source: DenialSource::Rule(FixedRule::UserPriority),
        demand: format!("the job has the priority {priority}"),
        remedy: format!("use a priority class of at most {HIGHEST_USER_PRIORITY}"),
    })
}

pub(crate) fn describe_privilege_use(group: &str, privilege: &Privilege, field: &str) -> String {
    let privilege = privilege.to_string();
    format!("task group {group:?} uses the privilege {privilege:?} ({field} of its pods)")
}
