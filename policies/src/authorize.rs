//! The one door to an [`AuthorizedJob`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use trellis_api::QueueSpec;
use trellis_compiler::{CompiledGroup, CompiledJob, Demand, PodPlacement};

use crate::{By, Denial, Privilege, Refusal, Rule, privileges, selects, starter};

/// Values above are the system's (`scheduling.HighestUserDefinablePriority`).
const HIGHEST_USER_PRIORITY: i32 = 1_000_000_000;
/// PriorityClasses of this prefix are the system's (`scheduling.SystemPriorityClassPrefix`).
const SYSTEM_PREFIX: &str = "system-";

/// What the caller knows of the cluster, as far as the rules look at it.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Name of the queue that the job was compiled for.
    pub queue: &'a str,
    /// That queue.
    pub queue_spec: &'a QueueSpec,
    /// Name of the job's namespace.
    pub namespace: &'a str,
    /// That namespace's labels.
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// The PriorityClass that the job's priority comes from: its own, or the
    /// cluster's default. None: neither.
    pub priority_class: Option<&'a str>,
}

/// A compiled job that policy allows, whole. Only [`authorize`] and
/// [`crate::cedar::authorize_by`] make one:
///
/// ```compile_fail,E0423
/// # fn forge(job: trellis_compiler::CompiledJob) {
/// let job = trellis_policies::AuthorizedJob(job);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AuthorizedJob(CompiledJob);

impl AuthorizedJob {
    /// The job that is allowed, with all that it becomes.
    #[must_use]
    pub fn compiled(&self) -> &CompiledJob {
        &self.0
    }

    /// For the door of policies alone.
    pub(crate) fn by_policies(job: CompiledJob) -> Self {
        Self(job)
    }
}

/// Decides on a job: on each of its demands, and on its final pods.
///
/// # Errors
/// With every refusal, if anything is denied. Facts of another queue or
/// namespace than the job's deny: what was not looked at is not allowed.
pub fn authorize(job: CompiledJob, facts: &Facts<'_>) -> Result<AuthorizedJob, Denial> {
    let mut refusals = Vec::new();
    for demand in job.demands() {
        match demand {
            Demand::UseQueue(queue) => refusals.extend(may_use_queue(queue, &job, facts)),
            Demand::UsePriorityClass(class) => refusals.extend(may_use_class(class)),
            // All of the job's own namespace, where whoever may create jobs may create pods.
            Demand::UseImage(_)
            | Demand::UseServiceAccount(_)
            | Demand::UseSecret(_)
            | Demand::UseConfigMap(_)
            | Demand::UseVolume(_) => {}
            // Nothing is open that the job does not name; what it names is open.
            Demand::ConnectTo(_) | Demand::AcceptFrom(_) => {}
        }
    }
    refusals.extend(facts.priority_class.and_then(may_use_class));
    refusals.extend(may_have_priority(job.priority()));
    for group in job.groups() {
        refusals.extend(may_run(group));
    }
    // A class that the job names is a demand and a fact.
    refusals.sort_by(|a, b| (&a.by, &a.demand).cmp(&(&b.by, &b.demand)));
    refusals.dedup();
    match Denial::new(refusals) {
        Some(denial) => Err(denial),
        None => Ok(AuthorizedJob(job)),
    }
}

/// What no policy can grant: facts of another queue or namespace, and priorities
/// of the cluster's own parts.
pub(crate) fn always(job: &CompiledJob, facts: &Facts<'_>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for demand in job.demands() {
        match demand {
            Demand::UseQueue(queue) if !knows(queue, job, facts) => {
                refusals.extend(may_use_queue(queue, job, facts));
            }
            Demand::UsePriorityClass(class) => refusals.extend(may_use_class(class)),
            _ => {}
        }
    }
    refusals.extend(facts.priority_class.and_then(may_use_class));
    refusals.extend(may_have_priority(job.priority()));
    refusals
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

fn may_use_queue(queue: &str, job: &CompiledJob, facts: &Facts<'_>) -> Option<Refusal> {
    let allowed = knows(queue, job, facts) && selects_namespace(facts);
    (!allowed).then(|| Refusal {
        by: By::Rule(Rule::QueueSelectsNamespace),
        demand: uses_queue(job.job().namespace(), queue),
        remedy: select(queue),
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

fn may_use_class(class: &str) -> Option<Refusal> {
    class.starts_with(SYSTEM_PREFIX).then(|| Refusal {
        by: By::Rule(Rule::UserPriority),
        demand: asks_for(class),
        remedy: "name one that does not start with system-, or none".to_owned(),
    })
}

pub(crate) fn asks_for(class: &str) -> String {
    format!("the job has the priority class {class:?}")
}

fn may_have_priority(priority: i32) -> Option<Refusal> {
    (priority > HIGHEST_USER_PRIORITY).then(|| Refusal {
        by: By::Rule(Rule::UserPriority),
        demand: format!("the job has the priority {priority}"),
        remedy: format!("use a priority class of at most {HIGHEST_USER_PRIORITY}"),
    })
}

/// The pods of a group differ by name, rank and node alone: one stands for all.
fn may_run(group: &CompiledGroup) -> Vec<Refusal> {
    pod_refusals(group.name(), &group.pod(0, &PodPlacement::NOWHERE))
}

fn pod_refusals(group: &str, pod: &Pod) -> Vec<Refusal> {
    privileges(pod)
        .into_iter()
        .filter(|privilege| !starter::grants(privilege))
        .map(|privilege| Refusal {
            by: By::Rule(Rule::PodSecurity),
            demand: uses(group, &privilege),
            remedy: privilege.remedy().to_owned(),
        })
        .collect()
}

pub(crate) fn uses(group: &str, privilege: &Privilege) -> String {
    let privilege = privilege.to_string();
    format!("task group {group:?} uses the privilege {privilege:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::PodSpec;

    /// The compiler makes no such pod, so that this cannot be seen from outside.
    #[test]
    fn privileges_are_refused_but_for_those_that_are_granted() {
        let pod = Pod {
            spec: Some(PodSpec {
                host_network: Some(true),
                containers: vec![Default::default()],
                ..PodSpec::default()
            }),
            ..Pod::default()
        };
        assert!(privileges(&pod).contains(&crate::Privilege::RunAsRoot));
        let refusals: Vec<_> = pod_refusals("worker", &pod)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            refusals,
            [
                "task group \"worker\" uses the privilege \"allowPrivilegeEscalation\", \
                 which the rule pod-security denies: set allowPrivilegeEscalation to false",
                "task group \"worker\" uses the privilege \"defaultCapabilities\", \
                 which the rule pod-security denies: drop the capabilities ALL",
                "task group \"worker\" uses the privilege \"hostNetwork\", \
                 which the rule pod-security denies: do not set hostNetwork",
                "task group \"worker\" uses the privilege \"seccomp\", \
                 which the rule pod-security denies: set seccompProfile.type to RuntimeDefault",
            ]
        );
    }
}
