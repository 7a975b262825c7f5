//! The pod of a task group: made once as a template, and from it each pod.

mod merge;
mod scheduling;
mod secret_references;
mod security_context;
mod shared_memory;
mod template_layers;
mod volumes;

pub use scheduling::toleration;
pub(crate) use template_layers::TemplateLayers;

use std::collections::BTreeMap;

use k8s_openapi::DeepMerge as _;
use k8s_openapi::api::core::v1::{
    Container, LocalObjectReference, Pod, PodDNSConfig, PodDNSConfigOption, PodSpec,
    ResourceRequirements, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trellis_api::job::{PullPolicy, TaskGroup};
use trellis_api::pod_template::MAIN_CONTAINER;
use trellis_api::quantity::Amount;
use trellis_api::{ComputeResources, Quantity, ValidatedJob, names};

use crate::environment::{self, PodEnvironment, PodIdentity};
use crate::framework::{self, Injection};
use crate::gang_facts::GangFacts;
use crate::objects::{external_secrets, metadata};
use crate::{CompileContext, PodPlacement, ports, resources};

/// Annotations that keep autoscalers from moving one pod of a gang.
const NO_DISRUPTION_ANNOTATIONS: [(&str, &str); 2] = [
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
];

/// All that the pods of a group have in common.
#[derive(Clone, Debug)]
pub(crate) struct SharedPodParts {
    metadata: ObjectMeta,
    /// The main container comes first, without its environment.
    spec: PodSpec,
    environment: PodEnvironment,
}

impl SharedPodParts {
    pub fn new(
        gang: &GangFacts<'_>,
        group: &TaskGroup,
        compute: &ComputeResources,
        layers: TemplateLayers<'_>,
        surroundings: &CompileContext,
    ) -> Self {
        let injection = framework::inject(gang, group);
        let mut spec = default_spec(gang, surroundings);
        for layer in layers.pod_specs() {
            merge::merge_spec(&mut spec, layer);
        }
        merge::merge_spec(
            &mut spec,
            job_spec(gang, group, compute, &injection, layers),
        );
        let inits = spec.init_containers.iter_mut().flatten();
        for container in spec.containers.iter_mut().chain(inits) {
            let said = container.security_context.take();
            let context = container
                .security_context
                .insert(security_context::container_defaults());
            context.merge_from(said.unwrap_or_default());
        }
        if let Some(main) = spec.containers.first_mut() {
            injection.command.apply(main);
        }
        let made = external_secrets::target_secret_names(gang.job);
        secret_references::rename_secrets(&mut spec, |name| made.get(name).map(String::as_str));
        let users = spec.containers.first_mut().and_then(|main| main.env.take());
        Self {
            metadata: pod_metadata(gang, group, layers),
            spec,
            environment: PodEnvironment::new(gang, group, injection.variables, users),
        }
    }

    /// One pod: the template with all that differs between pods.
    pub fn pod(&self, name: String, identity: PodIdentity, placement: &PodPlacement<'_>) -> Pod {
        let mut metadata = self.metadata.clone();
        metadata.name = Some(name.clone());
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(names::INDEX.to_owned(), identity.index.to_string());
        labels.insert(names::ATTEMPT.to_owned(), identity.attempt.to_string());
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.extend(placement.annotations.clone());
        annotations.insert(names::PLAN.to_owned(), placement.plan.to_owned());
        if placement.round > 0 {
            annotations.insert(names::ROUND.to_owned(), placement.round.to_string());
        }
        if let Some(epoch) = placement.epoch {
            annotations.insert(names::EPOCH.to_owned(), epoch.to_string());
        }

        let mut spec = PodSpec {
            hostname: Some(name),
            node_name: Some(placement.node.to_owned()),
            tolerations: non_empty(self.tolerations(placement)),
            ..self.spec.clone()
        };
        if let Some(main) = spec.containers.first_mut() {
            main.env = Some(self.environment.render(identity));
        }
        Pod {
            metadata,
            spec: Some(spec),
            status: None,
        }
    }

    /// Resources that one pod requests, by name and exact.
    pub fn request(&self) -> BTreeMap<String, Amount> {
        let inits = self.spec.init_containers.as_deref().unwrap_or_default();
        resources::pod_requests(&self.spec.containers, inits)
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
}

/// The user's labels, then ours over them.
pub(crate) fn pod_labels(
    job: &ValidatedJob,
    group: &TaskGroup,
    layers: TemplateLayers<'_>,
) -> BTreeMap<String, String> {
    let mut labels = layers.labels();
    let users = job.spec().pod_metadata.as_ref();
    labels.extend(users.map(|users| users.labels.clone()).unwrap_or_default());
    labels.extend(metadata::child_labels(job));
    labels.insert(names::GROUP.to_owned(), group.name.clone());
    labels
}

/// The labels, and the user's annotations with ours over them.
fn pod_metadata(gang: &GangFacts<'_>, group: &TaskGroup, layers: TemplateLayers<'_>) -> ObjectMeta {
    let users = gang.job.spec().pod_metadata.clone().unwrap_or_default();
    let child = metadata::child_metadata(gang.job);

    let mut annotations = layers.annotations();
    annotations.extend(users.annotations);
    annotations
        .extend(NO_DISRUPTION_ANNOTATIONS.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let told_by = gang.job.spec().checkpoint.as_ref();
    if let Some(key) = told_by.and_then(|checkpoint| checkpoint.last_time_annotation.clone()) {
        annotations.insert(names::CHECKPOINT_ANNOTATION.to_owned(), key);
    }
    ObjectMeta {
        name: None,
        labels: Some(pod_labels(gang.job, group, layers)),
        annotations: Some(annotations),
        ..child
    }
}

/// Defaults, below profile and template.
fn default_spec(gang: &GangFacts<'_>, surroundings: &CompileContext) -> PodSpec {
    let job = gang.job.spec();
    PodSpec {
        // Variables for every Service of the namespace: slow to start, and
        // other people's names in the environment.
        enable_service_links: Some(false),
        // Where an account is asked for, its own setting decides.
        automount_service_account_token: job.service_account_name.is_none().then_some(false),
        dns_config: Some(dns_config()),
        security_context: Some(security_context::pod_defaults(
            job.security_context.as_ref(),
            surroundings.namespace_enforces_restricted,
        )),
        containers: vec![Container {
            name: MAIN_CONTAINER.to_owned(),
            // A rank's last log lines go into the job's status, so that they outlive the pod.
            termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
            ..Container::default()
        }],
        ..PodSpec::default()
    }
}

/// The fields of job and group, and the fields that only Trellis sets.
fn job_spec(
    gang: &GangFacts<'_>,
    group: &TaskGroup,
    compute: &ComputeResources,
    injection: &Injection,
    layers: TemplateLayers<'_>,
) -> PodSpec {
    let job = gang.job.spec();
    let resources = resources::group_requests(group, compute);
    let ports = ports::container_ports(group, &injection.ports);
    let (volumes, mounts) = volumes::volumes_and_mounts(
        group,
        &compute.memory.quantity,
        layers.shared_memory(),
        &injection.files,
    );
    let main = Container {
        name: MAIN_CONTAINER.to_owned(),
        image: Some(group.image.clone()),
        image_pull_policy: Some(pull_policy(group).to_owned()),
        command: non_empty(group.command.clone()),
        args: non_empty(group.args.clone()),
        working_dir: group.working_dir.clone(),
        env: non_empty(group.env.iter().map(environment::user_variable).collect()),
        env_from: non_empty(environment::env_from_sources(group)),
        ports: non_empty(ports),
        resources: Some(resource_requirements(&resources)),
        volume_mounts: non_empty(mounts),
        ..Container::default()
    };
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        subdomain: Some(gang.job.name().to_owned()),
        service_account_name: job.service_account_name.clone(),
        // One without nodeName, which a webhook has taken away, is left alone by every other
        // scheduler; one with it is past all of them.
        scheduler_name: Some(names::SCHEDULER.to_owned()),
        priority_class_name: job.priority_class_name.clone(),
        termination_grace_period_seconds: Some(job.grace_period_seconds()),
        node_selector: (!group.node_selector.is_empty()).then(|| group.node_selector.clone()),
        affinity: scheduling::affinity(group.affinity.as_ref()),
        tolerations: non_empty(scheduling::tolerations(group, &resources)),
        image_pull_secrets: non_empty(
            group
                .image_pull_secrets
                .iter()
                .map(|secret| LocalObjectReference {
                    name: secret.name.clone(),
                })
                .collect(),
        ),
        security_context: job
            .security_context
            .as_ref()
            .map(security_context::requested_context),
        volumes: non_empty(volumes),
        containers: vec![main],
        ..PodSpec::default()
    }
}

/// Our addresses are full names of at least five labels: with the usual
/// `ndots: 5` each lookup would first try every search domain.
fn dns_config() -> PodDNSConfig {
    PodDNSConfig {
        options: Some(vec![PodDNSConfigOption {
            name: Some("ndots".to_owned()),
            value: Some("2".to_owned()),
        }]),
        ..PodDNSConfig::default()
    }
}

fn resource_requirements(resources: &BTreeMap<String, Quantity>) -> ResourceRequirements {
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
