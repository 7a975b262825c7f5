//! A task group: identical pods, told apart by an index.

use std::collections::BTreeMap;

use garde::Validate;
use k8s_openapi::api::core::v1::NodeAffinity;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ContainerPort, EnvFromSource, EnvVar, LocalReference, Mount, PullPolicy, ResourceRequirements,
};
use crate::topology::TopologyRequest;
use crate::{PodTemplate, Quantity, rules};

/// The resource that `gpus` counts where none is named.
pub const DEFAULT_GPU_RESOURCE: &str = "nvidia.com/gpu";

/// Identical pods of one job.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::UNIQUE_MOUNTS.to_cel_rule(), validation = rules::UNIQUE_PORTS.to_cel_rule(), validation = rules::ONE_DEVICE_COUNT.to_cel_rule(), validation = rules::CPU_STATED.to_cel_rule(), validation = rules::MEMORY_STATED.to_cel_rule(), validation = rules::MIN_REPLICAS.to_cel_rule())]
pub struct TaskGroup {
    /// Name, unique in the job: part of every pod's name.
    #[schemars(length(max = 24))]
    #[garde(custom(rules::group_name))]
    #[x_kube(validation = rules::GROUP_NAME.to_cel_rule())]
    pub name: String,
    /// Number of pods, 1 to 4096. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::replicas)))]
    #[x_kube(validation = rules::REPLICAS.to_cel_rule())]
    pub replicas: Option<i64>,
    /// The least of `replicas` that the group works with. Below `replicas` the group is elastic: so
    /// many are part of the gang, and the others come when there is room and are the first to make
    /// room for others (docs/elastic.md). Absent: as many as `replicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(custom(rules::min_replicas(self)))]
    pub min_replicas: Option<i64>,
    /// Whole devices for each pod, 0 to 64. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::gpus)))]
    #[x_kube(validation = rules::GPUS.to_cel_rule())]
    pub gpus: Option<i64>,
    /// Resource that `gpus` counts: MIG profiles and other vendors' devices by name. Absent:
    /// nvidia.com/gpu.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::extended_resource)))]
    #[x_kube(validation = rules::EXTENDED_RESOURCE.to_cel_rule())]
    pub gpu_resource: Option<String>,
    /// Names of ResourceFlavors that the group accepts, the best first. Absent: those of the queue,
    /// in its order. None of the queue's: the job waits with FlavorNotFound. Of a queue without
    /// quotas: nodes of these flavors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 63)))]
    #[garde(length(max = 8), inner(custom(rules::flavor_name)))]
    #[x_kube(validation = rules::FLAVOR_NAMES.to_cel_rule())]
    pub flavors: Vec<String>,
    /// Container image.
    #[schemars(length(max = rules::MAX_IMAGE))]
    #[garde(custom(rules::image))]
    #[x_kube(validation = rules::IMAGE.to_cel_rule())]
    pub image: String,
    /// When the image is pulled. Absent: IfNotPresent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<PullPolicy>,
    /// Secrets of the namespace with credentials for the registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(max = 16), dive)]
    pub image_pull_secrets: Vec<LocalReference>,
    /// Entrypoint. Absent: the image's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[garde(length(max = 256))]
    pub command: Vec<String>,
    /// Arguments of the entrypoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[garde(length(max = 1024))]
    pub args: Vec<String>,
    /// Environment variables. Names that Trellis or the framework sets are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(max = 128), custom(rules::unique_env), dive)]
    pub env: Vec<EnvVar>,
    /// Environment variables from every key of a ConfigMap or Secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[garde(length(max = 16), dive)]
    pub env_from: Vec<EnvFromSource>,
    /// Working directory. Absent: the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    #[garde(inner(length(max = 4096)))]
    pub working_dir: Option<String>,
    /// Resources of each pod, as in core. A group with GPUs may leave out cpu and memory where its
    /// RuntimeProfile or queue states `resourcesPerGPU`.
    #[serde(default, skip_serializing_if = "ResourceRequirements::is_empty")]
    #[garde(dive, custom(rules::one_device_count(self)))]
    pub resources: ResourceRequirements,
    /// Size of /dev/shm, "0" for none. Absent: the smaller of half the memory and 64Gi if the group
    /// has GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::quantity_or_zero)))]
    #[x_kube(validation = rules::QUANTITY_OR_ZERO.to_cel_rule())]
    pub shared_memory: Option<Quantity>,
    /// Volumes, all from the job's own namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
    #[garde(length(max = 32), custom(rules::unique_mounts), dive)]
    pub mounts: Vec<Mount>,
    /// Ports that the container listens on. A framework adds its own (docs/frameworks).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(max = 32), custom(rules::unique_ports), dive)]
    pub ports: Vec<ContainerPort>,
    /// What its pods do, and who has rank 0. Absent: Worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Membership of the pods in the gang. Absent: Gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub membership: Option<Membership>,
    /// Task groups, of those before this one, that the pods wait for: until they are Ready, or
    /// Complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 15), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group"]))]
    #[garde(length(max = 15), custom(rules::unique_dependencies))]
    pub depends_on: Vec<Dependency>,
    /// Closeness of the pods of the group, within the domain of the job. Absent: as the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub topology: Option<TopologyRequest>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[garde(custom(rules::node_labels))]
    pub node_selector: BTreeMap<String, String>,
    /// Node affinity, as in Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub affinity: Option<Affinity>,
    /// Taints that the pods tolerate, as in Kubernetes. A pod with GPUs tolerates the taint of that
    /// resource's name without asking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[garde(length(max = 32), dive)]
    pub tolerations: Vec<Toleration>,
    /// A partial PodTemplateSpec, for what has no field of its own: merged under the fields beside
    /// it, its container `main` being the group's own (docs/pods.md). At most 32 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub pod_template: Option<PodTemplate>,
}

/// Role of the pods of a group. Worker: they train; Coordinator: they train, and the first has rank
/// 0, at any position in the list; Launcher: mpirun runs here (framework MPI), with rank 0; Server:
/// parameter servers (framework TensorFlow), with the ranks after all workers; Evaluator: they
/// evaluate, and do not count in the world size. Without a Coordinator or Launcher the first Worker
/// has rank 0. Absent: Worker.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// Trains.
    #[default]
    Worker,
    /// Trains, and has rank 0.
    Coordinator,
    /// Runs mpirun, and has rank 0.
    Launcher,
    /// Keeps parameters.
    Server,
    /// Looks on.
    Evaluator,
}

/// Membership of the pods of a group in the gang. Gang: they are part of it; BestEffort: each comes
/// once the gang has its place and there is room for it, and none counts in the world size or for
/// the success of the job. Absent: Gang.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Membership {
    /// They are part of the gang.
    #[default]
    Gang,
    /// Each comes when there is room for it.
    BestEffort,
}

impl Role {
    /// True of the role whose first pod has rank 0, wherever its group stands.
    #[must_use]
    pub const fn has_rank_0(self) -> bool {
        matches!(self, Self::Coordinator | Self::Launcher)
    }

    /// True if its pods count in the world size.
    #[must_use]
    pub const fn is_in_world(self) -> bool {
        !matches!(self, Self::Evaluator)
    }
}

/// A task group that another waits for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dependency {
    /// Name of the task group.
    #[schemars(length(max = 24))]
    pub group: String,
    /// What of it is waited for. Absent: Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<DependencyStatus>,
}

impl Dependency {
    /// What is waited for, Ready where nothing is given.
    #[must_use]
    pub fn status(&self) -> DependencyStatus {
        self.status.unwrap_or_default()
    }
}

/// State of a task group that another group waits for. Ready: all of its pods are ready or have
/// succeeded; the waiting group keeps its place meanwhile. Complete: the group has done its work
/// and given up its place; the waiting group is the next stage, a gang of its own that is queued
/// then (docs/stages.md). Absent: Ready.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DependencyStatus {
    /// All of its pods are ready, or have succeeded.
    #[default]
    Ready,
    /// It has done its work. Who waits has no place before.
    Complete,
}

/// Affinity to nodes.
#[derive(Validate, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Affinity {
    /// Node affinity, as in Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::node_affinity)))]
    pub node_affinity: Option<NodeAffinity>,
}

/// A taint that the pods tolerate, as in Kubernetes.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::TOLERATION.to_cel_rule())]
pub struct Toleration {
    /// Taint key. Absent, with operator Exists: every key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    #[garde(custom(rules::toleration(self)), inner(custom(rules::taint_key)))]
    pub key: Option<String>,
    /// Exists or Equal. Absent: Equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// Taint value, for operator Equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// Taint effect. Absent: every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TolerationEffect>,
    /// Seconds that a NoExecute taint is tolerated. Absent: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// Comparison of a toleration with a taint. Exists: the taint has the key, with any value; Equal:
/// key and value are equal. Absent: Equal.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TolerationOperator {
    /// The key is there, whatever its value.
    Exists,
    /// Key and value are equal.
    Equal,
}

/// Effect of the taints that are tolerated: NoSchedule keeps new pods away,
/// PreferNoSchedule keeps them away where there is another place, NoExecute evicts
/// those that run. Absent: every effect.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TolerationEffect {
    /// Keeps new pods away.
    NoSchedule,
    /// Keeps new pods away where there is another place.
    PreferNoSchedule,
    /// Evicts pods that run.
    NoExecute,
}

impl TaskGroup {
    /// Number of pods, 1 where none is given. 0 for what validation refuses.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.replicas
            .map_or(1, |n| u32::try_from(n).unwrap_or_default())
    }

    /// True if its pods are part of the gang, or some of them.
    #[must_use]
    pub fn is_in_gang(&self) -> bool {
        self.membership.unwrap_or_default() == Membership::Gang
    }

    /// Its pods that are part of the gang: those with the lowest indexes.
    #[must_use]
    pub fn gang_size(&self) -> u32 {
        match self.min_replicas {
            _ if !self.is_in_gang() => 0,
            None => self.replicas(),
            Some(min) => u32::try_from(min).unwrap_or_default().min(self.replicas()),
        }
    }

    /// True if its pods count in the world size.
    #[must_use]
    pub fn is_in_world(&self) -> bool {
        self.is_in_gang() && self.role().is_in_world()
    }

    /// True if it may have fewer pods than it asks for.
    #[must_use]
    pub fn is_elastic(&self) -> bool {
        self.is_in_gang() && self.gang_size() < self.replicas()
    }

    /// GPUs of one pod.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.gpus
            .map_or(0, |n| u32::try_from(n).unwrap_or_default())
    }

    /// The resource that [`Self::gpus`] counts.
    #[must_use]
    pub fn gpu_resource(&self) -> &str {
        self.gpu_resource.as_deref().unwrap_or(DEFAULT_GPU_RESOURCE)
    }

    /// The group's role, Worker where none is given.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role.unwrap_or_default()
    }
}
