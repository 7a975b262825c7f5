//! Settings for new nodes of a flavor.

use std::collections::BTreeMap;

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Quantity, rules};

/// New nodes of a flavor. The operator orders them if a whole gang could start with them, and only
/// for jobs of queues whose `provisioning` permits it.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::PROVISIONING_METHOD.to_cel_rule())]
#[x_kube(validation = rules::PROVISIONING_METHOD_FIXED.to_cel_rule())]
pub struct FlavorProvisioning {
    /// Objects by which the operator orders nodes. Placeholders: the operator creates pods that no
    /// scheduler places, and Karpenter or Cluster Autoscaler adds nodes for them.
    /// ProvisioningRequest: the operator creates a ProvisioningRequest, which Cluster Autoscaler
    /// and GKE read.
    pub by: ProvisioningMethod,
    /// Fields of the ProvisioningRequest, with `by: ProvisioningRequest` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(custom(rules::provisioning_method(self)), dive)]
    pub provisioning_request: Option<ProvisioningRequestSettings>,
    /// Resources and labels of one new node.
    #[garde(dive)]
    pub node: NewNode,
    /// Maximum number of nodes of the flavor, including existing nodes.
    #[garde(custom(rules::max_nodes))]
    #[x_kube(validation = rules::MAX_NODES.to_cel_rule())]
    pub max_nodes: i64,
    /// Seconds that the operator waits for the nodes of one job. Then the order ends, and the
    /// operator tries the queue's next flavor. Absent: 1800.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::provisioning_timeout)))]
    #[x_kube(validation = rules::PROVISIONING_TIMEOUT.to_cel_rule())]
    pub timeout_seconds: Option<i64>,
    /// Seconds that new nodes may stand idle while the job still lacks nodes. Absent: 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::provisioning_timeout)))]
    #[x_kube(validation = rules::PROVISIONING_TIMEOUT.to_cel_rule())]
    pub idle_seconds: Option<i64>,
}

/// Objects by which the operator orders nodes. Placeholders: pods that no scheduler places.
/// ProvisioningRequest: an object of that kind.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisioningMethod {
    /// Pods that no scheduler places.
    Placeholders,
    /// A ProvisioningRequest.
    ProvisioningRequest,
}

/// The fields of a ProvisioningRequest (`autoscaling.x-k8s.io/v1`) that a flavor sets. Names follow
/// Kueue's ProvisioningRequestConfig.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct ProvisioningRequestSettings {
    /// Which controller adds the nodes, and how: `best-effort-atomic-scale-up.autoscaling.x-k8s.io`
    /// or `queued-provisioning.gke.io`. With `check-capacity.autoscaling.x-k8s.io`, Cluster
    /// Autoscaler adds no nodes.
    #[schemars(length(min = 1, max = 253))]
    #[garde(custom(rules::provisioning_class))]
    #[x_kube(validation = rules::PROVISIONING_CLASS.to_cel_rule())]
    pub provisioning_class_name: String,
    /// Parameters of the class, such as `maxRunDurationSeconds` on GKE.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 100, "additionalProperties" = {"type": "string", "maxLength": 255}))]
    #[garde(length(max = 100), custom(rules::provisioning_parameters))]
    #[x_kube(validation = rules::PROVISIONING_PARAMETERS.to_cel_rule())]
    pub parameters: BTreeMap<String, String>,
}

/// A new node of a flavor. Its taints are the flavor's `nodeTaints`.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct NewNode {
    /// Resources of the node that pods may request, as in `status.allocatable`, minus those of
    /// DaemonSet pods. Absent `pods`: 110.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 32, "additionalProperties" = rules::node_amount_schema()))]
    #[garde(length(min = 1, max = 32), custom(rules::allocatable))]
    #[x_kube(validation = rules::ALLOCATABLE.to_cel_rule())]
    pub allocatable: BTreeMap<String, Quantity>,
    /// Labels of a new node, in addition to the flavor's `nodeLabels`. A job that requires a level
    /// of a Topology gets new nodes only if they have the labels of that level.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    #[garde(
        length(max = 16),
        custom(rules::label_keys),
        custom(rules::label_values)
    )]
    #[x_kube(validation = rules::METADATA_KEYS.to_cel_rule(), validation = rules::LABEL_VALUES.to_cel_rule())]
    pub labels: BTreeMap<String, String>,
}

impl FlavorProvisioning {
    /// Returns the seconds that the operator waits for the nodes of one job, by default 1800.
    #[must_use]
    pub fn timeout_seconds(&self) -> i64 {
        self.timeout_seconds.unwrap_or(1_800)
    }

    /// Returns the seconds that new nodes may stand idle, by default 600.
    #[must_use]
    pub fn idle_seconds(&self) -> i64 {
        self.idle_seconds.unwrap_or(600)
    }
}
