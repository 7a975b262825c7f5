//! The first step: all the reads. They come from what the watches have shown,
//! which is complete before the first reconcile.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::names;
use trellis_api::pod_group::PodGroupStatus;
use trellis_api::{PodGroup, Queue, Reason, TrainingJob};
use trellis_policies::selects;

use super::lifecycle::Standing;
use crate::key::Key;
use crate::watch::PodView;
use crate::world::{Certificate, World};

/// A job and what belongs to it.
pub(super) struct Surrounded {
    /// The job.
    pub(super) job: Arc<TrainingJob>,
    /// Labels of its namespace.
    pub(super) namespace_labels: BTreeMap<String, String>,
    /// Its namespace is going: nothing can be created in it any more.
    pub(super) namespace_terminating: bool,
    /// Its queue, by name, or why there is none.
    pub(super) queue: Result<Arc<Queue>, Standing>,
    /// Its PriorityClass, by name, and the priority, or why there is none.
    pub(super) priority: Result<(Option<String>, i32), Standing>,
    /// The Services of its namespace that it names.
    pub(super) services: BTreeMap<String, Service>,
    /// Its PodGroup, if one of that name is there.
    pub(super) pod_group: Option<Arc<PodGroup>>,
    /// Pods of its name.
    pub(super) pods: BTreeMap<String, PodView>,
    /// Why it waits.
    pub(super) certificate: Option<Certificate>,
}

impl Surrounded {
    /// Uid of the job.
    pub(super) fn uid(&self) -> &str {
        self.job.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The job's status, empty before the first.
    pub(super) fn status(&self) -> TrainingJobStatus {
        self.job.status.clone().unwrap_or_default()
    }

    /// The journal, if the PodGroup is the job's.
    pub(super) fn journal(&self) -> PodGroupStatus {
        self.pod_group
            .as_ref()
            .filter(|g| is_owned(&g.metadata, self.uid()))
            .and_then(|g| g.status.clone())
            .unwrap_or_default()
    }
}

/// True if the object's controlling owner is the job of that uid.
pub(super) fn is_owned(meta: &kube::api::ObjectMeta, uid: &str) -> bool {
    meta.owner_references
        .iter()
        .flatten()
        .any(|o| o.controller == Some(true) && o.uid == uid)
}

/// Reads everything that the job's fate depends on. None if it is gone.
pub(super) fn job(world: &World, key: &Key) -> Option<Surrounded> {
    let job = world.jobs.get(key)?;
    let namespace = world.namespaces.get(&Key::new("", &key.namespace));
    let namespace_terminating = namespace
        .as_ref()
        .is_some_and(|n| n.metadata.deletion_timestamp.is_some());
    let namespace_labels = namespace
        .and_then(|n| n.metadata.labels.clone())
        .unwrap_or_default();
    let names = job.spec.network.iter().flat_map(|n| {
        n.egress
            .iter()
            .chain(&n.ingress)
            .filter_map(|r| r.service.as_deref())
    });
    let services = names
        .filter_map(|name| {
            let service = world.services.get(&Key::new(&key.namespace, name))?;
            let service = Service {
                metadata: service.metadata.clone(),
                spec: Some(service.spec.clone()),
                status: None,
            };
            Some((name.to_owned(), service))
        })
        .collect();
    Some(Surrounded {
        queue: queue(world, &job, &namespace_labels),
        priority: priority(world, &job),
        namespace_labels,
        namespace_terminating,
        services,
        pod_group: world.pod_groups.get(key),
        pods: world.pods.of(key),
        certificate: world.certificates.read().get(key).cloned(),
        job,
    })
}

fn waits(reason: Reason, message: String) -> Standing {
    Standing::Held {
        phase: JobPhase::Waiting,
        reason,
        message,
    }
}

/// The queue that the job names, else the default of its namespace. Of several
/// defaults the first by name: which it is must not depend on who asks.
fn queue(
    world: &World,
    job: &TrainingJob,
    labels: &BTreeMap<String, String>,
) -> Result<Arc<Queue>, Standing> {
    if let Some(name) = &job.spec.queue {
        return world.queues.get(&Key::new("", name)).ok_or_else(|| {
            waits(
                Reason::QueueNotFound,
                format!("spec.queue: queue {name:?} does not exist: create it or name another"),
            )
        });
    }
    let mut defaults: Vec<_> = world
        .queues
        .all()
        .into_iter()
        .filter(|q| selects(q.spec.default_for.as_ref(), labels))
        .collect();
    defaults.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    defaults.into_iter().next().ok_or_else(|| {
        waits(
            Reason::QueueNotFound,
            "spec.queue: none is given and no queue is the default for this namespace: name a queue"
                .to_owned(),
        )
    })
}

/// The PriorityClass that the job names, else the cluster's default, else 0.
fn priority(world: &World, job: &TrainingJob) -> Result<(Option<String>, i32), Standing> {
    if let Some(name) = &job.spec.priority_class_name {
        let class = world.priority_classes.get(&Key::new("", name));
        return class.map(|c| (Some(name.clone()), value_of(&c))).ok_or_else(|| {
            waits(
                Reason::PriorityClassNotFound,
                format!(
                    "spec.priorityClassName: PriorityClass {name:?} does not exist: create it or name another"
                ),
            )
        });
    }
    let default = world
        .priority_classes
        .all()
        .into_iter()
        .filter(|c| c.global_default == Some(true))
        .min_by_key(|c| value_of(c));
    Ok(default.map_or((None, 0), |c| (c.metadata.name.clone(), value_of(&c))))
}

fn value_of(class: &PriorityClass) -> i32 {
    class.value.unwrap_or(0)
}

/// True if the namespace holds its pods to "restricted".
pub(super) fn enforces_restricted(labels: &BTreeMap<String, String>) -> bool {
    labels
        .get(names::POD_SECURITY_ENFORCE)
        .is_some_and(|level| level == "restricted")
}
