//! A task group: identical pods, each with its own index.

use std::collections::BTreeMap;
use std::ops::Range;

use garde::Validate;
use k8s_openapi::api::core::v1::NodeAffinity;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ContainerPort, EnvFromSource, EnvVar, LocalReference, Mount, PullPolicy, ResourceRequirements,
};
use crate::topology::Closeness;
use crate::{PodTemplate, Quantity, rules};

/// Default of `gpuResource`: the resource that `gpus` counts.
pub const DEFAULT_GPU_RESOURCE: &str = "nvidia.com/gpu";

/// Identical pods of one job.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::UNIQUE_MOUNTS.to_cel_rule(), validation = rules::UNIQUE_PORTS.to_cel_rule(), validation = rules::ONE_DEVICE_COUNT.to_cel_rule(), validation = rules::CPU_STATED.to_cel_rule(), validation = rules::MEMORY_STATED.to_cel_rule(), validation = rules::MIN_REPLICAS.to_cel_rule(), validation = rules::SLICES_OF_REPLICAS.to_cel_rule(), validation = rules::SLICES_IN_GANG.to_cel_rule(), validation = rules::MIN_SLICES.to_cel_rule())]
pub struct TaskGroup {
    /// Name of the group, unique in the job. It is part of every pod's name.
    #[schemars(length(max = 24))]
    #[garde(custom(rules::group_name))]
    #[x_kube(validation = rules::GROUP_NAME.to_cel_rule())]
    pub name: String,
    /// Number of pods, 1 to 4096. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::replicas)))]
    #[x_kube(validation = rules::REPLICAS.to_cel_rule())]
    pub replicas: Option<i64>,
    /// Smallest number of pods that the group runs with. A value below `replicas` makes the group
    /// elastic: that many pods are part of the gang; the others are surplus pods, which start when
    /// there is room and are preempted first (docs/elastic.md). With slices, a multiple of `pods` of
    /// the first layer. Absent: as `replicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(custom(rules::min_replicas(self)), custom(rules::min_slices(self)))]
    pub min_replicas: Option<i64>,
    /// Number of whole devices for each pod, 0 to 64. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::gpus)))]
    #[x_kube(validation = rules::GPUS.to_cel_rule())]
    pub gpus: Option<i64>,
    /// Resource that `gpus` counts, such as a MIG profile or another vendor's device. Absent:
    /// nvidia.com/gpu.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::extended_resource)))]
    #[x_kube(validation = rules::EXTENDED_RESOURCE.to_cel_rule())]
    pub gpu_resource: Option<String>,
    /// Names of ResourceFlavors that the group accepts, the best first. If the queue offers none of
    /// them, the job waits with FlavorNotFound. In a queue without quotas they select nodes of
    /// these flavors. Absent: the queue's flavors, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 63)))]
    #[garde(length(max = 8), inner(custom(rules::flavor_name)))]
    #[x_kube(validation = rules::FLAVOR_NAMES.to_cel_rule())]
    pub flavors: Vec<String>,
    /// Name of another task group of the same stage. Both groups get the same flavor of each resource
    /// that both request. If this group names no `flavors`, it accepts those of the other group.
    /// Absent: the groups may get different flavors, unless another group names this group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 24))]
    pub same_flavor_as: Option<String>,
    /// Container image.
    #[schemars(length(max = rules::MAX_IMAGE))]
    #[garde(custom(rules::image))]
    #[x_kube(validation = rules::IMAGE.to_cel_rule())]
    pub image: String,
    /// When the kubelet pulls the image. Absent: IfNotPresent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<PullPolicy>,
    /// Secrets in the job's namespace with credentials for the registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(max = 16), custom(rules::unique_pull_secrets), dive)]
    pub image_pull_secrets: Vec<LocalReference>,
    /// Entrypoint of the container. Absent: the image's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[garde(length(max = 256))]
    pub command: Vec<String>,
    /// Arguments of the entrypoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[garde(length(max = 1024))]
    pub args: Vec<String>,
    /// Environment variables. Validation refuses names that Trellis or the framework sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(max = 128), custom(rules::unique_env), dive)]
    pub env: Vec<EnvVar>,
    /// Environment variables from every key of a ConfigMap or Secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[garde(length(max = 16), dive)]
    pub env_from: Vec<EnvFromSource>,
    /// Working directory of the container. Absent: the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    #[garde(inner(length(max = 4096)))]
    pub working_dir: Option<String>,
    /// Resources of each pod, as in core/v1. A group with GPUs may omit cpu and memory if its
    /// RuntimeProfile or queue states `resourcesPerGPU`.
    #[serde(default, skip_serializing_if = "ResourceRequirements::is_empty")]
    #[garde(dive, custom(rules::one_device_count(self)))]
    pub resources: ResourceRequirements,
    /// Size of the /dev/shm volume, "0" for none. Absent: the smaller of half the memory and 64Gi
    /// if the group has GPUs, else no volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::quantity_or_zero)))]
    #[x_kube(validation = rules::QUANTITY_OR_ZERO.to_cel_rule())]
    pub shared_memory: Option<Quantity>,
    /// Volumes and their mount paths, all from the job's namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
    #[garde(length(max = 32), custom(rules::unique_mounts), dive)]
    pub mounts: Vec<Mount>,
    /// Ports that the container listens on. A framework adds its own (docs/frameworks).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(max = 32), custom(rules::unique_ports), dive)]
    pub ports: Vec<ContainerPort>,
    /// Role of the pods, which also decides which pod has rank 0. Absent: Worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Membership of the pods in the gang. Absent: Gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub membership: Option<Membership>,
    /// Earlier task groups that the pods wait for, until these are Ready or Complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 15), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group"]))]
    #[garde(length(max = 15), custom(rules::unique_dependencies))]
    pub depends_on: Vec<Dependency>,
    /// Required or preferred closeness of the group's pods, and their slices, within the domain of
    /// the job. If the job has `slices` or `balanced`, groups of the world have none. Absent: as the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive, custom(rules::slices_of_group(self)))]
    pub topology: Option<Closeness>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[garde(custom(rules::node_labels))]
    pub node_selector: BTreeMap<String, String>,
    /// Node affinity, as in Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub affinity: Option<Affinity>,
    /// Taints that the pods tolerate, as in Kubernetes. A pod with GPUs always tolerates the taint
    /// with the name of its GPU resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[garde(length(max = 32), dive)]
    pub tolerations: Vec<Toleration>,
    /// A partial PodTemplateSpec, for settings without a field here. The fields of the group take
    /// precedence over it, and its container `main` is the group's own (docs/pods.md). At most 32
    /// KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub pod_template: Option<PodTemplate>,
}

/// Role of the pods of a group. Worker: they train; Coordinator: they train, and the first has rank
/// 0, at any position in the list (framework Ray: the head); Launcher: it runs mpirun (framework
/// MPI) and has rank 0; Server: they are parameter servers (framework TensorFlow), with ranks after
/// all workers; Evaluator: they evaluate, and do not count in the world size. Without a Coordinator
/// or Launcher, the first Worker has rank 0. Absent: Worker.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// The pods train.
    #[default]
    Worker,
    /// The pods train, and the first one has rank 0.
    Coordinator,
    /// The pod runs mpirun, and has rank 0.
    Launcher,
    /// The pods are parameter servers.
    Server,
    /// The pods evaluate, outside the world.
    Evaluator,
}

/// Membership of the pods of a group in the gang. Gang: they are part of it; BestEffort: each pod
/// starts when the gang is placed and there is room, and counts neither in the world size nor for
/// the success of the job. Absent: Gang.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Membership {
    /// The pods are part of the gang.
    #[default]
    Gang,
    /// Each pod starts when there is room for it.
    BestEffort,
}

impl Role {
    /// True if the first pod of this role has rank 0, wherever its group is in the list.
    #[must_use]
    pub const fn has_rank_0(self) -> bool {
        matches!(self, Self::Coordinator | Self::Launcher)
    }

    /// True if pods of this role count in the world size.
    #[must_use]
    pub const fn is_in_world(self) -> bool {
        !matches!(self, Self::Evaluator)
    }
}

/// A task group that another task group waits for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dependency {
    /// Name of the task group.
    #[schemars(length(max = 24))]
    pub group: String,
    /// State of the task group that the pods wait for. Absent: Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<DependencyStatus>,
}

impl Dependency {
    /// Returns the awaited state, by default Ready.
    #[must_use]
    pub fn status(&self) -> DependencyStatus {
        self.status.unwrap_or_default()
    }
}

/// State of a task group that another group waits for. Ready: all of its pods are ready or have
/// succeeded, and the waiting group keeps its place meanwhile. Complete: the group has finished and
/// released its place; the waiting group is the next stage, which is then queued as a gang of its
/// own (docs/stages.md). Absent: Ready.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DependencyStatus {
    /// All pods of the group are ready or have succeeded.
    #[default]
    Ready,
    /// The group has finished. The waiting group is not placed before that.
    Complete,
}

/// Node affinity of the pods.
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
    /// Key of the taint. Absent, with operator Exists: every key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    #[garde(custom(rules::toleration(self)), inner(custom(rules::taint_key)))]
    pub key: Option<String>,
    /// Comparison with the taint: Exists or Equal. Absent: Equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// Value of the taint, for operator Equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// Effect of the taint. Absent: every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TolerationEffect>,
    /// Seconds for which a NoExecute taint is tolerated. Absent: without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// Comparison of a toleration with a taint. Exists: the taint has the key, with any value; Equal:
/// key and value are equal. Absent: Equal.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TolerationOperator {
    /// The taint has the key, with any value.
    Exists,
    /// Key and value are equal.
    Equal,
}

/// Effect of the tolerated taints. NoSchedule keeps new pods away; PreferNoSchedule keeps them away
/// if another node has room; NoExecute also evicts running pods. Absent: every effect.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TolerationEffect {
    /// The taint keeps new pods away.
    NoSchedule,
    /// The taint keeps new pods away if another node has room.
    PreferNoSchedule,
    /// The taint evicts running pods.
    NoExecute,
}

impl TaskGroup {
    /// Number of pods, by default 1. Values that validation refuses give 0.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.replicas
            .map_or(1, |n| u32::try_from(n).unwrap_or_default())
    }

    /// Returns the number of pods in a slice of each layer, coarse to fine. Empty: the group is not
    /// split.
    #[must_use]
    pub fn slice_sizes(&self) -> Vec<u32> {
        let topology = self.topology.as_ref();
        topology.map_or_else(Vec::new, |topology| topology.slice_sizes(self.replicas()))
    }

    /// True if the group is split in slices.
    #[must_use]
    pub fn has_slices(&self) -> bool {
        let topology = self.topology.as_ref();
        topology.is_some_and(|topology| !topology.slices.is_empty())
    }

    /// Returns the pods of the slice, of the first layer, that the pod of this index belongs to.
    /// None: the group is not split.
    #[must_use]
    pub fn slice_of(&self, index: u32) -> Option<Range<u32>> {
        let size = self.slice_sizes().first().copied()?;
        let first = index.checked_div(size)?.saturating_mul(size);
        Some(first..first.saturating_add(size))
    }

    /// True if all or some pods of the group are part of the gang.
    #[must_use]
    pub fn is_in_gang(&self) -> bool {
        self.membership.unwrap_or_default() == Membership::Gang
    }

    /// Number of pods that are part of the gang: those with the lowest indexes.
    #[must_use]
    pub fn gang_size(&self) -> u32 {
        match self.min_replicas {
            _ if !self.is_in_gang() => 0,
            None => self.replicas(),
            Some(min) => u32::try_from(min).unwrap_or_default().min(self.replicas()),
        }
    }

    /// True if the pods of the group count in the world size.
    #[must_use]
    pub fn is_in_world(&self) -> bool {
        self.is_in_gang() && self.role().is_in_world()
    }

    /// True if the group may run with fewer pods than `replicas`.
    #[must_use]
    pub fn is_elastic(&self) -> bool {
        self.is_in_gang() && self.gang_size() < self.replicas()
    }

    /// Number of GPUs of one pod.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.gpus
            .map_or(0, |n| u32::try_from(n).unwrap_or_default())
    }

    /// Name of the resource that [`Self::gpus`] counts.
    #[must_use]
    pub fn gpu_resource(&self) -> &str {
        self.gpu_resource.as_deref().unwrap_or(DEFAULT_GPU_RESOURCE)
    }

    /// Returns the role, by default Worker.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role.unwrap_or_default()
    }
}
