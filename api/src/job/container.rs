//! The container of a pod: environment, volumes, ports, resources.

use std::collections::BTreeMap;

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Quantity, rules};

/// Pull policy of the image. Always: the kubelet pulls at every start; IfNotPresent: it pulls if
/// the node lacks the image; Never: the node must have the image. Absent: IfNotPresent.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// The kubelet pulls the image at every start.
    Always,
    /// The kubelet pulls the image if the node lacks it.
    IfNotPresent,
    /// The kubelet never pulls: the node must have the image.
    Never,
}

/// The name of an object in the job's namespace.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct LocalReference {
    /// Name of the object.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::object_name))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub name: String,
}

/// One key of a ConfigMap or Secret in the job's namespace, as in core/v1.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct KeySelector {
    /// Name of the object.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::object_name))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub name: String,
    /// Key in the object.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
    /// True: the job starts even if the object or the key does not exist. Absent: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// A field of the pod, as in core/v1.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct FieldSelector {
    /// Schema version of `fieldPath`: v1. Absent: v1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::field_version)))]
    #[x_kube(validation = rules::FIELD_VERSION.to_cel_rule())]
    pub api_version: Option<String>,
    /// Path of the field, such as `status.podIP`.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::env_field))]
    pub field_path: String,
}

/// An environment variable, as in core/v1: its value, or its source.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::ENV_VALUE.to_cel_rule())]
pub struct EnvVar {
    /// Name of the variable.
    #[schemars(length(max = 256))]
    #[garde(custom(rules::env_name), custom(rules::env_value(self)))]
    #[x_kube(validation = rules::ENV_NAME.to_cel_rule())]
    pub name: String,
    /// Value of the variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub value: Option<String>,
    /// Source of the variable's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub value_from: Option<EnvVarSource>,
}

/// Source of an environment variable's value, as in core/v1: exactly one of these fields.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::ENV_SOURCE.to_cel_rule())]
pub struct EnvVarSource {
    /// A key of a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive, custom(rules::env_source(self)))]
    pub secret_key_ref: Option<KeySelector>,
    /// A key of a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub config_map_key_ref: Option<KeySelector>,
    /// A field of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub field_ref: Option<FieldSelector>,
}

/// The name of a ConfigMap or Secret in the job's namespace, as in core/v1.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct EnvFromReference {
    /// Name of the object.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::object_name))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub name: String,
    /// True: the job starts even if the object does not exist. Absent: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// Environment variables from every key of a ConfigMap or Secret, as in core/v1.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::ENV_FROM_SOURCE.to_cel_rule())]
pub struct EnvFromSource {
    /// A ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive, custom(rules::env_from_source(self)))]
    pub config_map_ref: Option<EnvFromReference>,
    /// A Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub secret_ref: Option<EnvFromReference>,
    /// Text that is put before each name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[garde(inner(custom(rules::env_prefix)))]
    #[x_kube(validation = rules::ENV_PREFIX.to_cel_rule())]
    pub prefix: Option<String>,
}

/// Resources of each pod, as in core/v1.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = rules::REQUESTS.to_cel_rule())]
pub struct ResourceRequirements {
    /// Amounts that each pod gets, by resource name: cpu (96, "500m"), memory (1000Gi),
    /// ephemeral-storage, and whole devices other than `gpus`, such as rdma/hca. Absent, in a group
    /// with GPUs: cpu and memory are `resourcesPerGPU` of the RuntimeProfile, else of the queue,
    /// times the GPUs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    #[x_kube(validation = rules::LIMIT_CPU.to_cel_rule(), validation = rules::LIMIT_MEMORY.to_cel_rule(), validation = rules::LIMIT_DISK.to_cel_rule(), validation = rules::LIMIT_DEVICES.to_cel_rule())]
    pub limits: BTreeMap<String, Quantity>,
    /// Amounts that each pod requests. They must equal `limits`. A resource that is absent here is
    /// requested as in `limits`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub requests: BTreeMap<String, Quantity>,
    /// Must be empty: Trellis does not support dynamic resource allocation yet. Request devices by
    /// `gpus` and `limits`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[x_kube(validation = rules::NO_CLAIMS.to_cel_rule())]
    pub claims: Vec<ResourceClaim>,
}

/// A claim of `resources.claims` in core/v1.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceClaim {
    /// Name of the claim.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Name of a request in the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub request: Option<String>,
}

impl ResourceRequirements {
    /// Resources that are not devices, by their core/v1 names.
    pub const NON_DEVICE_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

    /// True if no resource is stated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// CPU limit, in cores.
    #[must_use]
    pub fn cpu(&self) -> Option<&Quantity> {
        self.limits.get("cpu")
    }

    /// Memory limit, in bytes.
    #[must_use]
    pub fn memory(&self) -> Option<&Quantity> {
        self.limits.get("memory")
    }

    /// Local disk limit, in bytes.
    #[must_use]
    pub fn ephemeral_storage(&self) -> Option<&Quantity> {
        self.limits.get("ephemeral-storage")
    }

    /// Device limits, by resource name.
    pub fn devices(&self) -> impl Iterator<Item = (&String, &Quantity)> {
        let limits = self.limits.iter();
        limits.filter(|(name, _)| !Self::NON_DEVICE_RESOURCES.contains(&name.as_str()))
    }
}

impl Validate for ResourceRequirements {
    type Context = ();

    fn validate_into(
        &self,
        (): &(),
        parent: &mut dyn FnMut() -> garde::Path,
        report: &mut garde::Report,
    ) {
        for (field, key, result) in rules::resource_requirements(self) {
            if let Err(error) = result {
                let path = parent().join(field);
                let path = key.map_or(path.clone(), |key| path.join(key));
                report.append(path, error);
            }
        }
    }
}

/// A volume and its mount path: exactly one of claimName, configMapName, secretName, emptyDir.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::MOUNT_SOURCE.to_cel_rule())]
pub struct Mount {
    /// Name of a PersistentVolumeClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::object_name)))]
    pub claim_name: Option<String>,
    /// Name of a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::object_name)))]
    pub config_map_name: Option<String>,
    /// Name of a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::object_name)))]
    pub secret_name: Option<String>,
    /// Scratch space that lives as long as the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub empty_dir: Option<EmptyDir>,
    /// Absolute path in the container.
    #[schemars(length(max = 1024))]
    #[garde(
        custom(rules::mount_path),
        custom(rules::reserved_path),
        custom(rules::mount_source(self))
    )]
    #[x_kube(validation = rules::MOUNT_PATH.to_cel_rule(), validation = rules::RESERVED_PATH.to_cel_rule())]
    pub path: String,
    /// True: the mount is read-only. Absent: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Path within the volume that is mounted instead of its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[garde(inner(custom(rules::sub_path)))]
    #[x_kube(validation = rules::SUB_PATH.to_cel_rule())]
    pub sub_path: Option<String>,
}

/// Scratch space that lives as long as the pod.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct EmptyDir {
    /// Largest size of the volume. The kubelet evicts the pod when the volume exceeds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::memory)))]
    #[x_kube(validation = rules::MEMORY.to_cel_rule())]
    pub size_limit: Option<Quantity>,
}

/// A port that the container listens on.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct ContainerPort {
    /// Name of the port, unique in the group (IANA service name: at most 15 characters).
    #[schemars(length(max = 15))]
    #[garde(custom(rules::port_name))]
    #[x_kube(validation = rules::PORT_NAME.to_cel_rule())]
    pub name: String,
    /// Port number, 1 to 65535.
    #[garde(custom(rules::port))]
    #[x_kube(validation = rules::PORT.to_cel_rule())]
    pub port: i32,
}
