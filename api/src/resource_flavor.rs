//! [`ResourceFlavor`]: a kind of nodes that quota is counted by.

mod provisioning;

use std::collections::BTreeMap;

use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::{Toleration, TolerationEffect};
use crate::rules;

pub use provisioning::{
    FlavorProvisioning, NewNode, ProvisioningMethod, ProvisioningRequestSettings,
};

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
    status = "ResourceFlavorStatus",
    derive = "PartialEq",
    doc = "A kind of nodes that quota is counted by.",
    validation = rules::FLAVOR_OBJECT_NAME.to_cel_rule(),
    printcolumn(name = "Autoscaler", type_ = "string", json_path = ".status.conditions[?(@.type==\"AutoscalerSuitable\")].reason"),
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
        custom(rules::label_keys),
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
    /// New nodes that an autoscaler adds for jobs that wait. Absent: the operator orders none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub provisioning: Option<FlavorProvisioning>,
}

/// Condition of a ResourceFlavor: true if the settings of its autoscaler are safe for gangs.
pub const AUTOSCALER_SUITABLE: &str = "AutoscalerSuitable";

impl ResourceFlavor {
    /// Returns the condition AutoscalerSuitable, even if it describes an older generation of the spec.
    #[must_use]
    pub fn autoscaler_condition(&self) -> Option<&Condition> {
        let mut conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.find(|condition| condition.type_ == AUTOSCALER_SUITABLE)
    }

    /// Returns true or false if the settings of the flavor's autoscaler are suitable or not. None: they
    /// are unknown, or the current generation of the spec is not checked yet.
    #[must_use]
    pub fn is_autoscaler_suitable(&self) -> Option<bool> {
        let condition = self.autoscaler_condition()?;
        match condition.status.as_str() {
            _ if condition.observed_generation != self.metadata.generation => None,
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        }
    }
}

/// Observed state of a ResourceFlavor.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFlavorStatus {
    /// Condition AutoscalerSuitable, of flavors with `provisioning`. False: the autoscaler would
    /// remove nodes of running gangs, buy nodes twice, or add none; the message states each setting
    /// to change. Unknown: its settings are not visible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
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
