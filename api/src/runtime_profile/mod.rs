//! [`RuntimeProfile`]: settings that a platform adds to the pods of jobs.

mod validated_profile;

use std::collections::BTreeMap;

use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::{Affinity, EnvVar, Network, PodMetadata, Toleration};
use crate::{PodTemplate, Quantity, ResourcesPerGpu, rules};

pub use validated_profile::ValidatedProfile;

/// Settings that a platform adds to the pods of its jobs, for the cluster's network, devices and
/// storage.
///
/// All settings are defaults: a job's own settings take precedence. Policies evaluate the resulting
/// pods as if the job had stated every setting itself.
#[derive(
    CustomResource, KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq,
)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "RuntimeProfile",
    plural = "runtimeprofiles",
    shortname = "trp",
    category = "trellis",
    status = "RuntimeProfileStatus",
    derive = "PartialEq",
    doc = "Settings that a platform adds to the pods of its jobs.",
    printcolumn(name = "Default", type_ = "boolean", json_path = ".spec.globalDefault"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(
    validation = rules::RESERVED_PROFILE_ENV.to_cel_rule(),
    validation = rules::PROFILE_PEERS.to_cel_rule(),
)]
pub struct RuntimeProfileSpec {
    /// True: jobs that name no profile use this one. If two profiles set it, those jobs wait.
    /// Absent: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_default: Option<bool>,
    /// Environment variables of the main container, such as NCCL's. A job's own variables of the
    /// same name take precedence. Secrets and ConfigMaps are read from the job's namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(
        length(max = 128),
        custom(rules::unique_env),
        custom(rules::profile_env),
        dive
    )]
    pub env: Vec<EnvVar>,
    /// CPU and memory for each GPU, for task groups that do not state their own. They take
    /// precedence over those of a queue.
    #[serde(rename = "resourcesPerGPU", skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub resources_per_gpu: Option<ResourcesPerGpu>,
    /// Size of /dev/shm for groups that state none, "0" for none. Absent: the default without a
    /// profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::quantity_or_zero)))]
    #[x_kube(validation = rules::QUANTITY_OR_ZERO.to_cel_rule())]
    pub shared_memory: Option<Quantity>,
    /// Labels that a node must have, in addition to those that a group requires.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[garde(custom(rules::node_labels))]
    pub node_selector: BTreeMap<String, String>,
    /// Node affinity, as in Kubernetes. A group's own affinity takes precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub affinity: Option<Affinity>,
    /// Taints that the pods tolerate, in addition to those that a group tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[garde(length(max = 32), dive)]
    pub tolerations: Vec<Toleration>,
    /// RuntimeClass of the pods. Policies must grant it as the privilege `runtimeClass <name>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::runtime_class)))]
    #[x_kube(validation = rules::RUNTIME_CLASS.to_cel_rule())]
    pub runtime_class_name: Option<String>,
    /// Labels and annotations of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub pod_metadata: Option<PodMetadata>,
    /// Network peers of the pods, in addition to those that their job names: destinations such as
    /// storage, and sources such as scrapers. By cidr or namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(custom(rules::profile_peers), dive)]
    pub network: Option<Network>,
    /// A partial PodTemplateSpec, for settings without a field here. The other fields take
    /// precedence over it (docs/pods.md). At most 32 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(custom(rules::profile_template), dive)]
    pub pod_template: Option<PodTemplate>,
}

/// Observed state of a RuntimeProfile.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeProfileStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Hash of the spec. Jobs that are compiled with the profile have it in `status.profile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Conditions Ready, Reconciling and Stalled (kstatus). The message states what is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl RuntimeProfileSpec {
    /// True if jobs that name no profile use this one.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.global_default.unwrap_or(false)
    }
}
