//! Only what is read of the objects that there are many of: decoding a full
//! Pod costs four times as much and ten times the memory.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use trellis_api::names;

/// Metadata without `managedFields`, which is most of it.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

pub(super) fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let meta = SlimMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        generation: meta.generation,
        creation_timestamp: meta.creation_timestamp,
        deletion_timestamp: meta.deletion_timestamp,
        deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
        labels: meta.labels,
        annotations: meta.annotations,
        owner_references: meta.owner_references,
        ..ObjectMeta::default()
    })
}

/// Names and versions alone: of kinds whose labels and annotations nobody reads.
pub(super) fn bare<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let meta = SlimMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        generation: meta.generation,
        deletion_timestamp: meta.deletion_timestamp,
        ..ObjectMeta::default()
    })
}

/// A pod: where it is, what it asks for, how it does.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::Pod")]
pub struct SlimPod {
    /// Metadata.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default, deserialize_with = "pod_spec")]
    pub spec: SlimPodSpec,
    /// Status.
    #[serde(default)]
    pub status: SlimPodStatus,
}

/// The spec, and all of it where Trellis is to find a node for the pod: there are few of those.
fn pod_spec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SlimPodSpec, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    let mut spec: SlimPodSpec =
        serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
    if spec.scheduler_name.as_deref() == Some(names::SCHEDULER) && spec.node_name.is_none() {
        spec.to_be_placed = Some(raw);
    }
    Ok(spec)
}

/// What is read of a pod's spec.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodSpec {
    /// Node that it is bound to.
    pub node_name: Option<String>,
    /// Containers.
    pub containers: Vec<SlimContainer>,
    /// Init containers and sidecars.
    pub init_containers: Vec<SlimContainer>,
    /// What the runtime class adds.
    pub overhead: BTreeMap<String, Quantity>,
    /// Pod-level resources (KEP-2837).
    pub resources: SlimResources,
    /// What it has against other pods.
    pub affinity: SlimPodAffinity,
    /// Taints that it tolerates.
    pub tolerations: Vec<core::Toleration>,
    /// The ServiceAccount that it runs as.
    pub service_account_name: Option<String>,
    /// Who is to find a node for it.
    pub scheduler_name: Option<String>,
    /// Its priority, as admission has found it.
    pub priority: Option<i32>,
    /// Seconds that it is given to stop.
    pub termination_grace_period_seconds: Option<i64>,
    /// Seconds that it may run.
    pub active_deadline_seconds: Option<i64>,
    /// All of the spec, as the API server writes it, of a pod that has no node and is to have one
    /// by Trellis.
    #[serde(skip)]
    pub to_be_placed: Option<Box<RawValue>>,
}

/// What is read of a pod's affinity.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodAffinity {
    /// Pods that it is not to be beside.
    pub pod_anti_affinity: SlimPodAntiAffinity,
}

/// What is read of a pod's anti-affinity.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodAntiAffinity {
    /// The terms that must hold.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Vec<core::PodAffinityTerm>,
}

/// What is read of a container.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimContainer {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: Option<String>,
    /// What it asks for.
    pub resources: SlimResources,
    /// `Always` makes an init container a sidecar (KEP-753).
    pub restart_policy: Option<String>,
}

/// Requests and limits.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimResources {
    /// Requests by resource.
    pub requests: BTreeMap<String, Quantity>,
    /// Limits by resource.
    pub limits: BTreeMap<String, Quantity>,
}

/// What is read of a pod's status.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodStatus {
    /// Pending, Running, Succeeded, Failed, Unknown.
    pub phase: Option<String>,
    /// Why it failed, where the kubelet says so for the pod as a whole.
    pub reason: Option<String>,
    /// The same in words.
    pub message: Option<String>,
    /// When the kubelet took it.
    pub start_time: Option<Time>,
    /// Conditions.
    pub conditions: Vec<SlimCondition>,
    /// Containers.
    pub container_statuses: Vec<SlimContainerStatus>,
    /// Init containers and sidecars.
    pub init_container_statuses: Vec<SlimContainerStatus>,
    /// Resources of the pod as a whole that the kubelet has set aside
    /// (KEP-5419). None: not told.
    pub allocated_resources: Option<BTreeMap<String, Quantity>>,
    /// Resources that the pod as a whole runs with (KEP-5419). None: not told.
    pub resources: Option<SlimActual>,
}

/// A condition of a pod or node.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False, Unknown.
    pub status: String,
    /// Its reason.
    pub reason: Option<String>,
    /// The same in words.
    pub message: Option<String>,
    /// Since when it is so.
    pub last_transition_time: Option<Time>,
}

/// The state of a container.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimContainerStatus {
    /// Name of the container: statuses come in an order of their own.
    pub name: String,
    /// Running, waiting or terminated.
    pub state: SlimState,
    /// How often it was started again.
    pub restart_count: i32,
    /// Resources that the kubelet has set aside (KEP-1287). None: not told.
    pub allocated_resources: Option<BTreeMap<String, Quantity>>,
    /// Resources that the container runs with (KEP-1287). None: not told.
    pub resources: Option<SlimActual>,
}

/// What a container runs with.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimActual {
    /// Requests by resource. None: not told.
    pub requests: Option<BTreeMap<String, Quantity>>,
}

/// One of three.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimState {
    /// It does not run yet.
    pub waiting: Option<SlimWaiting>,
    /// It runs.
    pub running: Option<SlimRunning>,
    /// It has ended.
    pub terminated: Option<SlimTerminated>,
}

/// A container that runs.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimRunning {
    /// Since when.
    pub started_at: Option<Time>,
}

/// What a container waits for.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimWaiting {
    /// Reason, such as ImagePullBackOff.
    pub reason: Option<String>,
    /// The same in words.
    pub message: Option<String>,
}

/// How a container ended.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimTerminated {
    /// Exit code.
    pub exit_code: i32,
    /// Reason, such as OOMKilled.
    pub reason: Option<String>,
    /// What it left as its last words.
    pub message: Option<String>,
    /// When.
    pub finished_at: Option<Time>,
}

/// A node: what it offers, and whether it is well.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::Node")]
pub struct SlimNode {
    /// Metadata.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: SlimNodeSpec,
    /// Status.
    #[serde(default)]
    pub status: SlimNodeStatus,
}

/// What is read of a node's spec.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimNodeSpec {
    /// Cordoned.
    pub unschedulable: bool,
    /// Taints.
    pub taints: Vec<core::Taint>,
}

/// What is read of a node's status.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimNodeStatus {
    /// What pods may use.
    pub allocatable: BTreeMap<String, Quantity>,
    /// Conditions.
    pub conditions: Vec<SlimCondition>,
}

impl SlimNode {
    /// True if the kubelet says that it is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.status
            .conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    }
}

/// A namespace: its labels, and whether it is going.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::Namespace")]
pub struct SlimNamespace {
    /// Metadata.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
}

/// A NetworkPolicy. Its spec is compared as a whole, and by the way it is written
/// takes a sixth of the memory.
#[derive(Resource, Serialize, Deserialize, Clone, Debug)]
#[resource(inherit = "networking::NetworkPolicy")]
pub struct SlimNetworkPolicy {
    /// Metadata.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Spec, as the API server writes it.
    pub spec: Option<Box<RawValue>>,
}

/// A ConfigMap of a job. Its data is compared as a whole.
#[derive(Resource, Serialize, Deserialize, Clone, Debug)]
#[resource(inherit = "core::ConfigMap")]
#[serde(rename_all = "camelCase")]
pub struct SlimConfigMap {
    /// Metadata.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Data, as the API server writes it.
    pub data: Option<Box<RawValue>>,
    /// Data that is no text. We write none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary_data: Option<Box<RawValue>>,
}

/// A Service: what a NetworkPolicy needs of it.
#[derive(Resource, Serialize, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::Service")]
pub struct SlimService {
    /// Metadata.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: core::ServiceSpec,
}
