//! What runs in a pod: environment, volumes, ports, resources.

use std::collections::BTreeMap;

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Quantity, rules};

/// When the image is pulled. Always: at every start; IfNotPresent: where the node
/// does not have it; Never: the node must have it. Absent: IfNotPresent.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// At every start.
    Always,
    /// Where the node does not have it.
    IfNotPresent,
    /// Never: the node must have it.
    Never,
}

/// The name of an object of the job's namespace.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct LocalReference {
    /// Name of the object.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::object_name))]
    #[x_kube(validation = rules::OBJECT_NAME.cel())]
    pub name: String,
}

/// One key of a ConfigMap or Secret of the job's namespace.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct KeyReference {
    /// Name of the object.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::object_name))]
    #[x_kube(validation = rules::OBJECT_NAME.cel())]
    pub name: String,
    /// Key within it.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// An environment variable: its value, or where it comes from.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::ENV_SOURCE.cel())]
pub struct EnvVar {
    /// Name of the variable.
    #[schemars(length(max = 256))]
    #[garde(custom(rules::env_name), custom(rules::env_source(self)))]
    #[x_kube(validation = rules::ENV_NAME.cel())]
    pub name: String,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub value: Option<String>,
    /// A key of a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub secret: Option<KeyReference>,
    /// A key of a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub config_map: Option<KeyReference>,
    /// A field of the pod, such as `status.podIP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::env_field)))]
    pub field: Option<String>,
}

/// Environment variables from every key of a ConfigMap or Secret.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::ENV_FROM_SOURCE.cel())]
pub struct EnvFrom {
    /// Name of a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(
        inner(custom(rules::object_name)),
        custom(rules::env_from_source(self))
    )]
    pub config_map: Option<String>,
    /// Name of a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::object_name)))]
    pub secret: Option<String>,
    /// Put before each name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[garde(inner(custom(rules::env_prefix)))]
    #[x_kube(validation = rules::ENV_PREFIX.cel())]
    pub prefix: Option<String>,
}

/// What each pod needs. Requests and limits are the same.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Resources {
    /// CPU, in cores: `96`, `"500m"`. Absent, of a group with GPUs: `resourcesPerGPU.cpu` of the RuntimeProfile, else of the queue, for each GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::cpu)))]
    #[x_kube(validation = rules::CPU.cel())]
    pub cpu: Option<Quantity>,
    /// Memory, in bytes: `1000Gi`. Absent, of a group with GPUs: `resourcesPerGPU.memory` of the RuntimeProfile, else of the queue, for each GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::memory)))]
    #[x_kube(validation = rules::MEMORY.cel())]
    pub memory: Option<Quantity>,
    /// Local disk, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::memory)))]
    #[x_kube(validation = rules::MEMORY.cel())]
    pub ephemeral_storage: Option<Quantity>,
    /// Whole devices beside `gpus`, by resource name: `rdma/hca: 1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[garde(custom(rules::extended))]
    #[x_kube(validation = rules::EXTENDED.cel())]
    pub extended: BTreeMap<String, Quantity>,
}

impl Resources {
    /// True if it states nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A volume and where it appears: exactly one of claim, configMap, secret, emptyDir.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::MOUNT_SOURCE.cel())]
pub struct Mount {
    /// Name of a PersistentVolumeClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::object_name)))]
    pub claim: Option<String>,
    /// Name of a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::object_name)))]
    pub config_map: Option<String>,
    /// Name of a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::object_name)))]
    pub secret: Option<String>,
    /// Scratch space that lives as long as the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub empty_dir: Option<EmptyDir>,
    /// Absolute path in the container.
    #[schemars(length(max = 1024))]
    #[garde(
        custom(rules::mount_path),
        custom(rules::own_path),
        custom(rules::mount_source(self))
    )]
    #[x_kube(validation = rules::MOUNT_PATH.cel(), validation = rules::OWN_PATH.cel())]
    pub path: String,
    /// True: no writes. Absent: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// A path within the volume instead of its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[garde(inner(custom(rules::sub_path)))]
    #[x_kube(validation = rules::SUB_PATH.cel())]
    pub sub_path: Option<String>,
}

/// Scratch space that lives as long as the pod.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct EmptyDir {
    /// The pod is evicted when it holds more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::memory)))]
    #[x_kube(validation = rules::MEMORY.cel())]
    pub size_limit: Option<Quantity>,
}

/// A port that the container listens on.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct ContainerPort {
    /// Name, unique in the group (IANA service name: at most 15 characters).
    #[schemars(length(max = 15))]
    #[garde(custom(rules::port_name))]
    #[x_kube(validation = rules::PORT_NAME.cel())]
    pub name: String,
    /// Number, 1 to 65535.
    #[garde(custom(rules::port))]
    #[x_kube(validation = rules::PORT.cel())]
    pub port: i32,
}
