//! The pod of a task group: made once as a template, and from it each pod.

mod scheduling;
mod security;
mod shared_memory;
mod volumes;

pub use scheduling::toleration;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, LocalObjectReference, Pod, PodDNSConfig, PodDNSConfigOption, PodSpec,
    ResourceRequirements, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trellis_api::job::{PullPolicy, TaskGroup};
use trellis_api::{Quantity, ValidatedJob, names};

use crate::environment::{self, Environment, Identity};
use crate::framework;
use crate::gang::Gang;
use crate::{PodPlacement, Surroundings, metadata, ports};

/// Name of the one container.
const CONTAINER: &str = "main";
/// A pod without `nodeName` (the binding path, or one whose `nodeName` a
/// webhook has taken away) is left alone by every other scheduler; a pod with
/// one is past all of them.
const SCHEDULER: &str = "trellis";
/// Seconds that a pod is given from SIGTERM to SIGKILL: the kubelet's default.
pub const GRACE_SECONDS: i64 = 30;

/// Annotations that keep autoscalers from moving one pod of a gang.
const STAY: [(&str, &str); 2] = [
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
];

/// All that the pods of a group have in common.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    metadata: ObjectMeta,
    /// Without its container.
    spec: PodSpec,
    /// Without its environment.
    container: Container,
    environment: Environment,
}

impl Template {
    pub fn new(
        gang: &Gang<'_>,
        group: &TaskGroup,
        resources: &BTreeMap<String, Quantity>,
        surroundings: &Surroundings,
    ) -> Self {
        let injection = framework::inject(gang, group);
        let (volumes, mounts) = volumes::of(group);
        let ports = ports::container(group, &injection.ports);
        let env_from = environment::sources(group);
        let container = Container {
            name: CONTAINER.to_owned(),
            image: Some(group.image.clone()),
            image_pull_policy: Some(pull_policy(group).to_owned()),
            command: non_empty(group.command.clone()),
            args: non_empty(group.args.clone()),
            working_dir: group.working_dir.clone(),
            env_from: non_empty(env_from),
            ports: non_empty(ports),
            resources: Some(requirements(resources)),
            volume_mounts: non_empty(mounts),
            security_context: Some(security::container()),
            ..Container::default()
        };
        Self {
            metadata: pod_metadata(gang, group),
            spec: PodSpec {
                volumes: non_empty(volumes),
                ..spec(gang, group, resources, surroundings)
            },
            container,
            environment: Environment::new(gang, group, injection.variables),
        }
    }

    /// One pod: the template with all that differs between pods.
    pub fn pod(&self, name: String, identity: Identity, placement: &PodPlacement<'_>) -> Pod {
        let mut metadata = self.metadata.clone();
        metadata.name = Some(name.clone());
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(names::INDEX.to_owned(), identity.index.to_string());
        labels.insert(names::ATTEMPT.to_owned(), identity.attempt.to_string());
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(names::PLAN.to_owned(), placement.plan.to_owned());

        let container = Container {
            env: Some(self.environment.render(identity)),
            ..self.container.clone()
        };
        Pod {
            metadata,
            spec: Some(PodSpec {
                hostname: Some(name),
                node_name: Some(placement.node.to_owned()),
                containers: vec![container],
                tolerations: non_empty(self.tolerations(placement)),
                ..self.spec.clone()
            }),
            status: None,
        }
    }

    /// The group's own, then those of its flavors.
    fn tolerations(&self, placement: &PodPlacement<'_>) -> Vec<Toleration> {
        let mut all = self.spec.tolerations.clone().unwrap_or_default();
        for toleration in placement.tolerations {
            if !all.contains(toleration) {
                all.push(toleration.clone());
            }
        }
        all
    }

    /// The ports that each pod listens on.
    pub fn into_ports(self) -> Vec<ContainerPort> {
        self.container.ports.unwrap_or_default()
    }
}

/// The user's labels, then ours over them.
pub(crate) fn labels(job: &ValidatedJob, group: &TaskGroup) -> BTreeMap<String, String> {
    let users = job.spec().pod_metadata.as_ref();
    let mut labels = users.map(|users| users.labels.clone()).unwrap_or_default();
    labels.extend(metadata::labels(job));
    labels.insert(names::GROUP.to_owned(), group.name.clone());
    labels
}

/// The labels, and the user's annotations with ours over them.
fn pod_metadata(gang: &Gang<'_>, group: &TaskGroup) -> ObjectMeta {
    let users = gang.job.spec().pod_metadata.clone().unwrap_or_default();
    let child = metadata::child(gang.job);

    let mut annotations = users.annotations;
    annotations.extend(STAY.map(|(key, value)| (key.to_owned(), value.to_owned())));
    ObjectMeta {
        name: None,
        labels: Some(labels(gang.job, group)),
        annotations: Some(annotations),
        ..child
    }
}

fn spec(
    gang: &Gang<'_>,
    group: &TaskGroup,
    resources: &BTreeMap<String, Quantity>,
    surroundings: &Surroundings,
) -> PodSpec {
    let job = gang.job.spec();
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        subdomain: Some(gang.job.name().to_owned()),
        // Variables for every Service of the namespace: slow to start, and
        // other people's names in the environment.
        enable_service_links: Some(false),
        service_account_name: job.service_account_name.clone(),
        // Where an account is asked for, its own setting decides.
        automount_service_account_token: job.service_account_name.is_none().then_some(false),
        dns_config: Some(few_lookups()),
        scheduler_name: Some(SCHEDULER.to_owned()),
        priority_class_name: job.priority_class_name.clone(),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        node_selector: (!group.node_selector.is_empty()).then(|| group.node_selector.clone()),
        affinity: scheduling::affinity(group),
        tolerations: non_empty(scheduling::tolerations(group, resources)),
        image_pull_secrets: non_empty(
            group
                .image_pull_secrets
                .iter()
                .map(|secret| LocalObjectReference {
                    name: secret.name.clone(),
                })
                .collect(),
        ),
        security_context: Some(security::pod(
            job.security_context.as_ref(),
            surroundings.namespace_enforces_restricted,
        )),
        ..PodSpec::default()
    }
}

/// Our addresses are full names of at least five labels: with the usual
/// `ndots: 5` each lookup would first try every search domain.
fn few_lookups() -> PodDNSConfig {
    PodDNSConfig {
        options: Some(vec![PodDNSConfigOption {
            name: Some("ndots".to_owned()),
            value: Some("2".to_owned()),
        }]),
        ..PodDNSConfig::default()
    }
}

fn requirements(resources: &BTreeMap<String, Quantity>) -> ResourceRequirements {
    let list: BTreeMap<_, _> = resources
        .iter()
        .map(|(name, quantity)| {
            (
                name.clone(),
                resource::Quantity(quantity.as_str().to_owned()),
            )
        })
        .collect();
    ResourceRequirements {
        requests: Some(list.clone()),
        limits: Some(list),
        claims: None,
    }
}

fn pull_policy(group: &TaskGroup) -> &'static str {
    match group.image_pull_policy.unwrap_or(PullPolicy::IfNotPresent) {
        PullPolicy::Always => "Always",
        PullPolicy::IfNotPresent => "IfNotPresent",
        PullPolicy::Never => "Never",
    }
}

/// No empty lists on the wire: the API server drops them, and a comparison with
/// what it stores would see a difference for ever.
fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
