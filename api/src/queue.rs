//! [`Queue`]: who may use how much.

use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Quantity, rules};

/// The one flavor that there is so far: every node.
pub const DEFAULT_FLAVOR: &str = "default";

/// A line that jobs wait in, and what they may hold together.
///
/// Names and arithmetic are those of Kueue's ClusterQueue, so that its users can move.
#[derive(
    CustomResource, KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq,
)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "Queue",
    plural = "queues",
    shortname = "q",
    status = "QueueStatus",
    derive = "PartialEq",
    doc = "A line that jobs wait in, and what they may hold together.",
    validation = rules::QUEUE_OBJECT_NAME.cel(),
    printcolumn(name = "Pending", type_ = "integer", json_path = ".status.pending"),
    printcolumn(name = "Admitted", type_ = "integer", json_path = ".status.admitted"),
    printcolumn(name = "Stop", type_ = "string", json_path = ".spec.stop"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct QueueSpec {
    /// Quota by resource. Absent: the queue takes what the nodes have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[garde(length(max = 16), dive, custom(rules::unique_quota_resources))]
    #[x_kube(validation = rules::UNIQUE_QUOTA_RESOURCES.cel())]
    pub resource_groups: Vec<ResourceGroup>,
    /// Namespaces whose jobs may use the queue. Absent: none; `{}`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Namespaces whose jobs go here when they name no queue. Absent: none; `{}`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_for: Option<LabelSelector>,
    /// Hold: nothing more starts. Absent: None.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopPolicy>,
}

/// Resources that are counted together.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::QUOTA_COVERS.cel())]
pub struct ResourceGroup {
    /// Names of the resources that the flavors of this group give quota for.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "set"))]
    #[garde(
        length(min = 1, max = 16),
        inner(custom(rules::resource_name)),
        custom(rules::quota_covers(self))
    )]
    pub resources: Vec<String>,
    /// Quota by flavor. So far there is one flavor, `default`: every node.
    #[schemars(length(min = 1, max = 1), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(min = 1, max = 1), dive)]
    pub flavors: Vec<FlavorQuotas>,
}

/// Quota in one flavor.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct FlavorQuotas {
    /// Name of the flavor.
    #[schemars(length(max = 63))]
    #[garde(custom(rules::flavor_name))]
    #[x_kube(validation = rules::FLAVOR_NAME.cel())]
    pub name: String,
    /// One quota for each resource of the group.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["resource"]))]
    #[garde(length(min = 1, max = 16), dive)]
    pub quotas: Vec<ResourceQuota>,
}

/// Quota of one resource.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct ResourceQuota {
    /// Name of the resource.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::resource_name))]
    #[x_kube(validation = rules::RESOURCE_NAME.cel())]
    pub resource: String,
    /// What the queue's jobs may hold of it together.
    #[garde(custom(rules::nominal))]
    #[x_kube(validation = rules::NOMINAL.cel())]
    pub nominal: Quantity,
}

/// Whether a queue is open.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StopPolicy {
    /// Open.
    #[default]
    None,
    /// Nothing more starts; what runs goes on.
    Hold,
}

/// Observed state of a Queue.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Jobs that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<i64>,
    /// Jobs that hold a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted: Option<i64>,
    /// Conditions: Active.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
