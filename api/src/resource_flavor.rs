//! [`ResourceFlavor`]: a kind of nodes that quota is counted by.

use std::collections::BTreeMap;

use garde::Validate;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::{Toleration, TolerationEffect};
use crate::{Quantity, rules};

/// A kind of nodes: for example one GPU model, one zone, or one purchase type. Queues give quota by
/// flavor, and jobs name the flavors that they accept.
///
/// Names follow Kueue's ResourceFlavor.
#[derive(
    CustomResource, KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq,
)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "ResourceFlavor",
    plural = "resourceflavors",
    shortname = "trf",
    category = "trellis",
    derive = "PartialEq",
    doc = "A kind of nodes that quota is counted by.",
    validation = rules::FLAVOR_OBJECT_NAME.to_cel_rule(),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct ResourceFlavorSpec {
    /// Labels of the flavor's nodes. Absent: the flavor contains every node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    #[garde(
        length(max = 8),
        custom(rules::metadata_keys),
        custom(rules::label_values)
    )]
    #[x_kube(validation = rules::METADATA_KEYS.to_cel_rule(), validation = rules::LABEL_VALUES.to_cel_rule())]
    pub node_labels: BTreeMap<String, String>,
    /// Taints of the flavor's nodes. A task group that does not tolerate them, by itself or through
    /// `tolerations`, does not get the flavor, and the scheduler tries the next one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[garde(length(max = 8), dive)]
    pub node_taints: Vec<NodeTaint>,
    /// Taints that pods with this flavor tolerate, in addition to those that their jobs tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[garde(length(max = 8), dive)]
    pub tolerations: Vec<Toleration>,
    /// New nodes that an autoscaler adds for jobs that wait. Absent: the operator asks for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub provisioning: Option<FlavorProvisioning>,
}

/// New nodes of a flavor. The operator asks an autoscaler for them if a whole gang could start with
/// them, and only for jobs of queues whose `provisioning` permits it.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct FlavorProvisioning {
    /// How the operator asks for nodes. Placeholders: by pods that no scheduler places, which
    /// Karpenter and Cluster Autoscaler add nodes for.
    pub by: ProvisioningMethod,
    /// Resources and labels of one new node.
    #[garde(dive)]
    pub node: NewNode,
    /// The most nodes that the flavor may have, including those that exist.
    #[garde(custom(rules::max_nodes))]
    #[x_kube(validation = rules::MAX_NODES.to_cel_rule())]
    pub max_nodes: i64,
    /// Seconds that the operator waits for the nodes of one job. Then it gives up those that have
    /// come, and tries the queue's next flavor. Absent: 1800.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::provisioning_timeout)))]
    #[x_kube(validation = rules::PROVISIONING_TIMEOUT.to_cel_rule())]
    pub timeout_seconds: Option<i64>,
    /// Seconds that new nodes may stand idle while other nodes of the same job are missing. Absent:
    /// 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::provisioning_timeout)))]
    #[x_kube(validation = rules::PROVISIONING_TIMEOUT.to_cel_rule())]
    pub idle_seconds: Option<i64>,
}

/// How the operator asks an autoscaler for nodes. Placeholders: by pods that no scheduler places.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisioningMethod {
    /// By pods that no scheduler places.
    Placeholders,
}

/// A new node of a flavor. Its taints are the flavor's `nodeTaints`.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct NewNode {
    /// Resources that pods may use, as in `status.allocatable` of such a node, without those that
    /// DaemonSets take. Absent `pods`: 110.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 32))]
    #[garde(length(min = 1, max = 32), custom(rules::allocatable))]
    #[x_kube(validation = rules::ALLOCATABLE.to_cel_rule())]
    pub allocatable: BTreeMap<String, Quantity>,
    /// Labels of a new node, in addition to the flavor's `nodeLabels`. A job that requires a level
    /// of a Topology gets new nodes only if they have the labels of that level.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    #[garde(
        length(max = 16),
        custom(rules::metadata_keys),
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

/// A taint of a node.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct NodeTaint {
    /// Key of the taint.
    #[schemars(length(min = 1, max = 317))]
    #[garde(length(min = 1, max = 317))]
    pub key: String,
    /// Value of the taint. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(length(max = 63)))]
    pub value: Option<String>,
    /// Effect on pods that do not tolerate the taint.
    pub effect: TolerationEffect,
}
