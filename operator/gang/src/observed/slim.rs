//! Types that hold only the fields that Trellis reads, for kinds with many objects: to decode a
//! full Pod costs four times as much time and ten times the memory.

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

/// Metadata without `managedFields`, which would take most of the memory.
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

/// Only names and versions, for kinds whose labels and annotations are not read.
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

/// A pod: node, resources and state.
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

/// Returns the spec, with its whole text if Trellis must find a node for the pod. There are few
/// such pods.
fn pod_spec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SlimPodSpec, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    let mut spec: SlimPodSpec =
        serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
    if spec.scheduler_name.as_deref() == Some(names::SCHEDULER) && spec.node_name.is_none() {
        spec.to_be_placed = Some(raw);
    }
    Ok(spec)
}

/// The fields of a pod's spec that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodSpec {
    /// Node that the pod is bound to.
    pub node_name: Option<String>,
    /// Containers.
    pub containers: Vec<SlimContainer>,
    /// Init containers and sidecars.
    pub init_containers: Vec<SlimContainer>,
    /// Overhead that the runtime class adds.
    pub overhead: BTreeMap<String, Quantity>,
    /// Pod-level resources (KEP-2837).
    pub resources: SlimResources,
    /// Anti-affinity of the pod.
    pub affinity: SlimPodAffinity,
    /// Tolerations of the pod.
    pub tolerations: Vec<core::Toleration>,
    /// ServiceAccount of the pod.
    pub service_account_name: Option<String>,
    /// Name of the scheduler that places the pod.
    pub scheduler_name: Option<String>,
    /// Priority of the pod, as set by admission.
    pub priority: Option<i32>,
    /// Termination grace period, in seconds.
    pub termination_grace_period_seconds: Option<i64>,
    /// Longest run time, in seconds.
    pub active_deadline_seconds: Option<i64>,
    /// Text of the whole spec, for a pod without a node that Trellis must place.
    #[serde(skip)]
    pub to_be_placed: Option<Box<RawValue>>,
}

/// The fields of a pod's affinity that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodAffinity {
    /// Anti-affinity to other pods.
    pub pod_anti_affinity: SlimPodAntiAffinity,
}

/// The fields of a pod's anti-affinity that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodAntiAffinity {
    /// The required terms.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Vec<core::PodAffinityTerm>,
}

/// The fields of a container that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimContainer {
    /// Name of the container.
    pub name: String,
    /// Image of the container.
    pub image: Option<String>,
    /// Requests and limits of the container.
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

/// The fields of a pod's status that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodStatus {
    /// Pending, Running, Succeeded, Failed, Unknown.
    pub phase: Option<String>,
    /// Why the pod failed, if the kubelet reports it for the whole pod.
    pub reason: Option<String>,
    /// The reason in words.
    pub message: Option<String>,
    /// When the kubelet accepted the pod.
    pub start_time: Option<Time>,
    /// Conditions.
    pub conditions: Vec<SlimCondition>,
    /// Containers.
    pub container_statuses: Vec<SlimContainerStatus>,
    /// Init containers and sidecars.
    pub init_container_statuses: Vec<SlimContainerStatus>,
    /// Resources that the kubelet has allocated to the whole pod (KEP-5419). None if not reported.
    pub allocated_resources: Option<BTreeMap<String, Quantity>>,
    /// Resources that the whole pod runs with (KEP-5419). None if not reported.
    pub resources: Option<SlimActualResources>,
}

/// A condition of a pod or node.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False, Unknown.
    pub status: String,
    /// Reason of the condition.
    pub reason: Option<String>,
    /// The reason in words.
    pub message: Option<String>,
    /// When the status last changed.
    pub last_transition_time: Option<Time>,
}

/// The state of a container.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimContainerStatus {
    /// Name of the container: statuses are not in the order of the containers.
    pub name: String,
    /// Running, waiting or terminated.
    pub state: SlimContainerState,
    /// Number of restarts.
    pub restart_count: i32,
    /// Resources that the kubelet has allocated (KEP-1287). None if not reported.
    pub allocated_resources: Option<BTreeMap<String, Quantity>>,
    /// Resources that the container runs with (KEP-1287). None if not reported.
    pub resources: Option<SlimActualResources>,
}

/// Resources that a container runs with.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimActualResources {
    /// Requests by resource. None if not reported.
    pub requests: Option<BTreeMap<String, Quantity>>,
}

/// The state of a container: one of the three fields is set.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimContainerState {
    /// The container does not run yet.
    pub waiting: Option<SlimWaiting>,
    /// The container runs.
    pub running: Option<SlimRunning>,
    /// The container has ended.
    pub terminated: Option<SlimTerminated>,
}

/// State of a running container.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimRunning {
    /// When the container started.
    pub started_at: Option<Time>,
}

/// State of a waiting container.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimWaiting {
    /// Reason, such as ImagePullBackOff.
    pub reason: Option<String>,
    /// The reason in words.
    pub message: Option<String>,
}

/// State of a container that has ended.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimTerminated {
    /// Exit code.
    pub exit_code: i32,
    /// Reason, such as OOMKilled.
    pub reason: Option<String>,
    /// The termination message.
    pub message: Option<String>,
    /// When the container ended.
    pub finished_at: Option<Time>,
}

/// A node: allocatable resources, taints and conditions.
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

/// The fields of a node's spec that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimNodeSpec {
    /// True if the node is cordoned.
    pub unschedulable: bool,
    /// Taints.
    pub taints: Vec<core::Taint>,
}

/// The fields of a node's status that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimNodeStatus {
    /// Resources that pods may use.
    pub allocatable: BTreeMap<String, Quantity>,
    /// Conditions.
    pub conditions: Vec<SlimCondition>,
}

impl SlimNode {
    /// Returns true if the kubelet reports the node ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.status
            .conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    }
}

/// A namespace: its labels, and whether it is being deleted.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::Namespace")]
pub struct SlimNamespace {
    /// Metadata.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
}

/// A NetworkPolicy. Its spec is compared as a whole; as text it takes a sixth of the memory.
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
    /// Binary data. Trellis writes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary_data: Option<Box<RawValue>>,
}

/// A Service: the fields that a NetworkPolicy needs.
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
