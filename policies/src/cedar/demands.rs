//! The demands of a compiled job as requests: one for each action on each resource.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::job::{Deadlines, Framework};
use trellis_compiler::{CompiledGroup, CompiledJob, Demand, Endpoint, PodPlacement};

use super::ask::{Ask, Far, Object, Remote, VolumeKind};
use super::subject::{About, Requester};
use crate::authorize::{asks_for, knows, selects_namespace};
use crate::{Facts, Privilege, asked};

/// Facts of a job that are in neither the compiled job nor [`Facts`].
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// Labels of the TrainingJob.
    pub labels: &'a BTreeMap<String, String>,
    /// The user who submitted it. None: not known.
    pub requester: Option<&'a Requester>,
    /// The attempt that it is about to make, from 1.
    pub attempt: i64,
}

/// One request of a job, with its description and the fix for a denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demanded {
    /// The request.
    pub ask: Ask,
    /// Descriptions of the request, one for each task group that makes it.
    pub words: Vec<String>,
    /// How to avoid the request.
    pub remedy: String,
}

/// Everything that the job demands, each once.
pub(super) fn of_job(job: &CompiledJob, facts: &Facts<'_>) -> Vec<Demanded> {
    let namespace = job.job().namespace();
    let mut all = BTreeSet::from([Ask::Submit]);
    all.extend(job.demands().iter().map(|demand| ask(demand, job, facts)));
    let class = facts.priority_class.map(str::to_owned);
    all.extend(class.map(Ask::UsePriorityClass));
    all.extend(flavors(job, facts).into_iter().map(Ask::UseFlavor));
    let mut all: Vec<_> = all
        .into_iter()
        .map(|ask| Demanded {
            words: vec![words(&ask, namespace, job.job().name())],
            remedy: remedy(&ask),
            ask,
        })
        .collect();
    all.extend(of_pods(job.groups()));
    all
}

fn ask(demand: &Demand, job: &CompiledJob, facts: &Facts<'_>) -> Ask {
    let selects_namespace = |queue: &str| knows(queue, job, facts) && selects_namespace(facts);
    asked_by(demand, job.job().namespace(), selects_namespace)
}

/// The request that a demand makes in that namespace. `selects` tells whether a queue selects it.
pub(super) fn asked_by(demand: &Demand, namespace: &str, selects: impl Fn(&str) -> bool) -> Ask {
    let object = |name: &String| Object {
        namespace: namespace.to_owned(),
        name: name.clone(),
    };
    let far = |endpoint: &Endpoint| Far {
        endpoint: endpoint.clone(),
        namespace: namespace.to_owned(),
    };
    match demand {
        Demand::UseQueue(queue) => Ask::UseQueue {
            queue: queue.clone(),
            selects_namespace: selects(queue),
        },
        Demand::UsePriorityClass(class) => Ask::UsePriorityClass(class.clone()),
        Demand::UseImage(image) => Ask::UseImage(image.clone()),
        Demand::UseServiceAccount(name) => Ask::UseServiceAccount(object(name)),
        Demand::UseSecret(name) => Ask::UseSecret(object(name)),
        Demand::UseRemoteSecret(secret) => Ask::UseRemoteSecret(Remote {
            namespace: namespace.to_owned(),
            secret: secret.clone(),
        }),
        Demand::UseConfigMap(name) => Ask::UseVolume(VolumeKind::ConfigMap, object(name)),
        Demand::UseVolume(name) => Ask::UseVolume(VolumeKind::Claim, object(name)),
        Demand::UseEphemeralVolume(class) => Ask::UseVolume(VolumeKind::Ephemeral, object(class)),
        Demand::ConnectTo(endpoint) => Ask::ConnectTo(far(endpoint)),
        Demand::AcceptFrom(endpoint) => Ask::AcceptFrom(far(endpoint)),
    }
}

/// The flavors that the job may be given: those that its groups name, and for a
/// group that names none all that the queue offers, since any may be chosen.
fn flavors(job: &CompiledJob, facts: &Facts<'_>) -> BTreeSet<String> {
    let groups = &job.job().spec().task_groups;
    let named = groups
        .iter()
        .flat_map(|group| group.flavors.iter().cloned());
    let mut all: BTreeSet<_> = named.collect();
    if groups.iter().any(|group| group.flavors.is_empty()) {
        let offered = facts.queue_spec.resource_groups.iter();
        all.extend(offered.flat_map(|g| g.flavors.iter().map(|f| f.name.clone())));
    }
    all
}

/// The privileges of the final pods. The pods of a group differ by name, rank
/// and node alone: one stands for all.
fn of_pods(groups: &[CompiledGroup]) -> Vec<Demanded> {
    let mut all: BTreeMap<Privilege, Vec<String>> = BTreeMap::new();
    for group in groups {
        for (privilege, field) in asked(&group.pod(0, &PodPlacement::NOWHERE)) {
            let words = crate::authorize::uses(group.name(), &privilege, &field);
            all.entry(privilege).or_default().push(words);
        }
    }
    let all = all.into_iter().map(|(privilege, words)| Demanded {
        ask: Ask::UsePrivilege(privilege.policy_name()),
        words,
        remedy: privilege.remedy().to_owned(),
    });
    all.collect()
}

/// Facts that policies may look at beside the requests.
pub(super) fn about<'a>(job: &'a CompiledJob, submission: &Submission<'a>) -> About<'a> {
    let spec = job.job().spec();
    let deadlines: Option<&Deadlines> = spec.deadlines.as_ref();
    About {
        job: job.job().name(),
        labels: submission.labels,
        requester: submission.requester,
        gpus: spec.gpu_count().into(),
        pods: spec.pod_count().into(),
        framework: framework(spec.framework()),
        priority: job.priority().into(),
        runtime_seconds: deadlines.and_then(|d| d.active_seconds),
        profile: job.profile().map(|profile| profile.name()),
        attempt: submission.attempt,
    }
}

/// The framework as the spec writes it.
pub(super) const fn framework(framework: Framework) -> &'static str {
    match framework {
        Framework::PyTorch => "PyTorch",
        Framework::DeepSpeed => "DeepSpeed",
        Framework::JAX => "JAX",
        Framework::MPI => "MPI",
        Framework::TensorFlow => "TensorFlow",
        Framework::None => "None",
    }
}

pub(super) fn words(ask: &Ask, namespace: &str, job: &str) -> String {
    match ask {
        Ask::Submit => format!("namespace {namespace:?} submits the job {job:?}"),
        Ask::UseQueue { queue, .. } => crate::authorize::uses_queue(namespace, queue),
        Ask::UsePriorityClass(class) => asks_for(class),
        Ask::UseFlavor(name) => format!("the job may be given the flavor {name:?}"),
        Ask::UseImage(name) => format!("the job runs the image {name:?}"),
        Ask::UseServiceAccount(o) => format!("the job runs as the ServiceAccount {:?}", o.name),
        Ask::UseSecret(o) => format!("the job reads the Secret {:?}", o.name),
        Ask::UseRemoteSecret(remote) => format!("the job reads {}", remote.words()),
        Ask::UseVolume(VolumeKind::Claim, o) => format!("the job mounts the claim {:?}", o.name),
        Ask::UseVolume(VolumeKind::ConfigMap, o) => {
            format!("the job reads the ConfigMap {:?}", o.name)
        }
        Ask::UseVolume(VolumeKind::Ephemeral, o) => format!(
            "each pod has an ephemeral volume of StorageClass {:?}",
            o.name
        ),
        Ask::ConnectTo(far) => format!("the job connects to {}", far.words()),
        Ask::AcceptFrom(far) => format!("the job is reached from {}", far.words()),
        Ask::UsePrivilege(name) => format!("the job uses the privilege {name:?}"),
    }
}

pub(super) fn remedy(ask: &Ask) -> String {
    match ask {
        Ask::UseQueue {
            queue,
            selects_namespace: false,
        } => crate::authorize::select(queue),
        Ask::UseQueue { .. } => "name another queue".to_owned(),
        Ask::UsePriorityClass(_) => "name another class, or none".to_owned(),
        Ask::UseFlavor(_) => "name others in taskGroups[].flavors".to_owned(),
        Ask::UseImage(_) => "use another image".to_owned(),
        Ask::UseRemoteSecret(_) => {
            "have a policy permit UseSecret on it, or remove it from spec.secrets".to_owned()
        }
        _ => "do without it".to_owned(),
    }
}
