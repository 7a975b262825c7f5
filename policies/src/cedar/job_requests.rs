//! The demands of a compiled job as requests: one for each action on each resource.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::job::Deadlines;
use trellis_compiler::{CompiledGroup, CompiledJob, Demand, Endpoint, PodPlacement};

use super::policy_request::{
    NamespacedName, NetworkPeer, PolicyRequest, RemoteSecretRef, VolumeKind,
};
use super::principal::{JobAttributes, Requester};
use crate::authorize::{describe_priority_class, facts_match, queue_selects_namespace};
use crate::{ClusterFacts, Privilege, privileges_with_fields};

/// Facts of a job that are in neither the compiled job nor [`ClusterFacts`].
#[derive(Clone, Copy, Debug)]
pub struct SubmissionFacts<'a> {
    /// Labels of the TrainingJob.
    pub labels: &'a BTreeMap<String, String>,
    /// The user who submitted it. None: not known.
    pub requester: Option<&'a Requester>,
    /// The attempt that it is about to make, from 1.
    pub attempt: i64,
}

/// One request of a job, with its description and the fix for a denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedRequest {
    /// The request.
    pub request: PolicyRequest,
    /// Descriptions of the request, one for each task group that makes it.
    pub descriptions: Vec<String>,
    /// How to avoid the request.
    pub remedy: String,
}

/// Everything that the job demands, each once.
pub(super) fn collect_requests(
    job: &CompiledJob,
    facts: &ClusterFacts<'_>,
) -> Vec<DescribedRequest> {
    let namespace = job.job().namespace();
    let mut all = BTreeSet::from([PolicyRequest::Submit]);
    all.extend(
        job.demands()
            .iter()
            .map(|demand| request_from_demand(demand, job, facts)),
    );
    let class = facts.priority_class.map(str::to_owned);
    all.extend(class.map(PolicyRequest::UsePriorityClass));
    all.extend(
        possible_flavors(job, facts)
            .into_iter()
            .map(PolicyRequest::UseFlavor),
    );
    let mut all: Vec<_> = all
        .into_iter()
        .map(|ask| DescribedRequest {
            descriptions: vec![describe_request(&ask, namespace, job.job().name())],
            remedy: request_remedy(&ask),
            request: ask,
        })
        .collect();
    all.extend(privilege_requests(job.groups()));
    all
}

fn request_from_demand(
    demand: &Demand,
    job: &CompiledJob,
    facts: &ClusterFacts<'_>,
) -> PolicyRequest {
    let selects_namespace =
        |queue: &str| facts_match(queue, job, facts) && queue_selects_namespace(facts);
    build_request(demand, job.job().namespace(), selects_namespace)
}

/// The request that a demand makes in that namespace. `selects` tells whether a queue selects it.
pub(super) fn build_request(
    demand: &Demand,
    namespace: &str,
    selects: impl Fn(&str) -> bool,
) -> PolicyRequest {
    let object = |name: &String| NamespacedName {
        namespace: namespace.to_owned(),
        name: name.clone(),
    };
    let far = |endpoint: &Endpoint| NetworkPeer {
        endpoint: endpoint.clone(),
        namespace: namespace.to_owned(),
    };
    match demand {
        Demand::UseQueue(queue) => PolicyRequest::UseQueue {
            queue: queue.clone(),
            selects_namespace: selects(queue),
        },
        Demand::UsePriorityClass(class) => PolicyRequest::UsePriorityClass(class.clone()),
        Demand::UseImage(image) => PolicyRequest::UseImage(image.clone()),
        Demand::UseServiceAccount(name) => PolicyRequest::UseServiceAccount(object(name)),
        Demand::UseSecret(name) => PolicyRequest::UseSecret(object(name)),
        Demand::UseRemoteSecret(secret) => PolicyRequest::UseRemoteSecret(RemoteSecretRef {
            namespace: namespace.to_owned(),
            secret: secret.clone(),
        }),
        Demand::UseConfigMap(name) => PolicyRequest::UseVolume(VolumeKind::ConfigMap, object(name)),
        Demand::UseVolume(name) => PolicyRequest::UseVolume(VolumeKind::Claim, object(name)),
        Demand::UseEphemeralVolume(class) => {
            PolicyRequest::UseVolume(VolumeKind::Ephemeral, object(class))
        }
        Demand::ConnectTo(endpoint) => PolicyRequest::ConnectTo(far(endpoint)),
        Demand::AcceptFrom(endpoint) => PolicyRequest::AcceptFrom(far(endpoint)),
    }
}

/// The flavors that the job may be given: those that its groups name, and for a
/// group that names none all that the queue offers, since any may be chosen.
fn possible_flavors(job: &CompiledJob, facts: &ClusterFacts<'_>) -> BTreeSet<String> {
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
fn privilege_requests(groups: &[CompiledGroup]) -> Vec<DescribedRequest> {
    let mut all: BTreeMap<Privilege, Vec<String>> = BTreeMap::new();
    for group in groups {
        for (privilege, field) in privileges_with_fields(&group.pod(0, &PodPlacement::UNPLACED)) {
            let words = crate::authorize::describe_privilege_use(group.name(), &privilege, &field);
            all.entry(privilege).or_default().push(words);
        }
    }
    let all = all.into_iter().map(|(privilege, words)| DescribedRequest {
        request: PolicyRequest::UsePrivilege(privilege.policy_name()),
        descriptions: words,
        remedy: privilege.remedy().to_owned(),
    });
    all.collect()
}

/// Facts that policies may look at beside the requests.
pub(super) fn job_attributes<'a>(
    job: &'a CompiledJob,
    submission: &SubmissionFacts<'a>,
) -> JobAttributes<'a> {
    let spec = job.job().spec();
    let deadlines: Option<&Deadlines> = spec.deadlines.as_ref();
    JobAttributes {
        job: job.job().name(),
        labels: submission.labels,
        requester: submission.requester,
        gpus: spec.gpu_count().into(),
        pods: spec.pod_count().into(),
        framework: spec.framework().spec().name,
        priority: job.priority().into(),
        runtime_seconds: deadlines.and_then(|d| d.active_seconds),
        profile: job.profile().map(|profile| profile.name()),
        attempt: submission.attempt,
    }
}

pub(super) fn describe_request(ask: &PolicyRequest, namespace: &str, job: &str) -> String {
    match ask {
        PolicyRequest::Submit => format!("namespace {namespace:?} submits the job {job:?}"),
        PolicyRequest::UseQueue { queue, .. } => {
            crate::authorize::describe_queue_use(namespace, queue)
        }
        PolicyRequest::UsePriorityClass(class) => describe_priority_class(class),
        PolicyRequest::UseFlavor(name) => format!("the job may be given the flavor {name:?}"),
        PolicyRequest::UseImage(name) => format!("the job runs the image {name:?}"),
        PolicyRequest::UseServiceAccount(o) => {
            format!("the job runs as the ServiceAccount {:?}", o.name)
        }
        PolicyRequest::UseSecret(o) => format!("the job reads the Secret {:?}", o.name),
        PolicyRequest::UseRemoteSecret(remote) => format!("the job reads {}", remote.describe()),
        PolicyRequest::UseVolume(VolumeKind::Claim, o) => {
            format!("the job mounts the claim {:?}", o.name)
        }
        PolicyRequest::UseVolume(VolumeKind::ConfigMap, o) => {
            format!("the job reads the ConfigMap {:?}", o.name)
        }
        PolicyRequest::UseVolume(VolumeKind::Ephemeral, o) => format!(
            "each pod has an ephemeral volume of StorageClass {:?}",
            o.name
        ),
        PolicyRequest::ConnectTo(far) => format!("the job connects to {}", far.describe()),
        PolicyRequest::AcceptFrom(far) => format!("the job is reached from {}", far.describe()),
        PolicyRequest::UsePrivilege(name) => format!("the job uses the privilege {name:?}"),
    }
}

pub(super) fn request_remedy(ask: &PolicyRequest) -> String {
    match ask {
        PolicyRequest::UseQueue {
            queue,
            selects_namespace: false,
        } => crate::authorize::queue_remedy(queue),
        PolicyRequest::UseQueue { .. } => "name another queue".to_owned(),
        PolicyRequest::UsePriorityClass(_) => "name another class, or none".to_owned(),
        PolicyRequest::UseFlavor(_) => "name others in taskGroups[].flavors".to_owned(),
        PolicyRequest::UseImage(_) => "use another image".to_owned(),
        PolicyRequest::UseRemoteSecret(_) => {
            "have a policy permit UseSecret on it, or remove it from spec.secrets".to_owned()
        }
        _ => "do without it".to_owned(),
    }
}
