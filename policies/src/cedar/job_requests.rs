//! The demands of a compiled job as requests: one for each action on each resource.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::job::Deadlines;
use trellis_api::queue::ResourceGroup;
use trellis_compiler::{CompiledGroup, CompiledJob, Demand, Endpoint, PodPlacement};

use super::request::{
    ImageReference, JobAttributes, JobItself, JobName, NamespacedName, NetworkPeer, PolicyRequest,
    QueueUse, RemoteSecretRef, Requester, SecretRef, VolumeKind, VolumeRef,
};
use crate::authorize::{facts_match, queue_selects_namespace};
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
    let name = JobName {
        namespace: job.job().namespace(),
        name: job.job().name(),
    };
    let mut all = BTreeSet::from([PolicyRequest::Submit(JobItself)]);
    all.extend(
        job.demands()
            .iter()
            .map(|demand| request_from_demand(demand, job, facts)),
    );
    let class = facts.priority_class.map(str::to_owned);
    all.extend(class.map(PolicyRequest::UsePriorityClass));
    let flavors = possible_flavors(job, facts);
    if facts.queue_spec.orders_nodes() {
        all.extend(flavors.iter().cloned().map(PolicyRequest::ProvisionNodes));
    }
    all.extend(flavors.into_iter().map(PolicyRequest::UseFlavor));
    let mut all: Vec<_> = all
        .into_iter()
        .map(|request| DescribedRequest {
            descriptions: vec![request.describe(&name)],
            remedy: request.remedy(),
            request,
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
    let peer = |endpoint: &Endpoint| NetworkPeer {
        endpoint: endpoint.clone(),
        namespace: namespace.to_owned(),
    };
    let volume = |kind, name: &String| {
        PolicyRequest::UseVolume(VolumeRef {
            kind,
            object: object(name),
        })
    };
    match demand {
        Demand::UseQueue(queue) => PolicyRequest::UseQueue(QueueUse {
            queue: queue.clone(),
            selects_namespace: selects(queue),
        }),
        Demand::UsePriorityClass(class) => PolicyRequest::UsePriorityClass(class.clone()),
        Demand::UseImage(image) => PolicyRequest::UseImage(ImageReference(image.clone())),
        Demand::UseServiceAccount(name) => PolicyRequest::UseServiceAccount(object(name)),
        Demand::UseSecret(name) => PolicyRequest::UseSecret(SecretRef::Cluster(object(name))),
        Demand::UseRemoteSecret(secret) => {
            PolicyRequest::UseSecret(SecretRef::Store(RemoteSecretRef {
                namespace: namespace.to_owned(),
                secret: secret.clone(),
            }))
        }
        Demand::UseConfigMap(name) => volume(VolumeKind::ConfigMap, name),
        Demand::UseVolume(name) => volume(VolumeKind::Claim, name),
        Demand::UseEphemeralVolume(class) => volume(VolumeKind::Ephemeral, class),
        Demand::ConnectTo(endpoint) => PolicyRequest::ConnectTo(peer(endpoint)),
        Demand::AcceptFrom(endpoint) => PolicyRequest::AcceptFrom(peer(endpoint)),
    }
}

/// The flavors that the job may get: those that its task groups accept. If a task group accepts no
/// flavor of some resources that it requests, but others, or accepts any, it may get all flavors of
/// these resources.
fn possible_flavors(job: &CompiledJob, facts: &ClusterFacts<'_>) -> BTreeSet<String> {
    let spec = job.job().spec();
    let mut all = BTreeSet::new();
    for group in &spec.task_groups {
        let accepted = spec.accepted_flavors(group);
        all.extend(accepted.iter().cloned());
        let compiled = job
            .groups()
            .iter()
            .find(|compiled| compiled.name() == group.name);
        let request = compiled.map(CompiledGroup::request).unwrap_or_default();
        let is_used = |offered: &&ResourceGroup| {
            let mut covered = offered.covered_resources.iter();
            covered.any(|resource| resource == "pods" || request.contains_key(resource))
        };
        let is_accepted = |offered: &&ResourceGroup| {
            let mut flavors = offered.flavors.iter();
            flavors.any(|flavor| accepted.contains(&flavor.name))
        };
        let used: Vec<_> = facts
            .queue_spec
            .resource_groups
            .iter()
            .filter(is_used)
            .collect();
        // Without any of its flavors in the queue, the group does not start.
        if accepted.is_empty() || used.iter().any(is_accepted) {
            let open = used.iter().filter(|offered| !is_accepted(offered));
            let flavors = open.flat_map(|offered| &offered.flavors);
            all.extend(flavors.map(|flavor| flavor.name.clone()));
        }
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
