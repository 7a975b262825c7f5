//! [`ResourceFlavor`]: a kind of nodes that quota is counted by.

use std::collections::BTreeMap;

use garde::Validate;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::job::{Toleration, TolerationEffect};
use crate::rules;

/// A kind of nodes: of one GPU model, in one zone, bought in one way. Queues
/// give quota by flavor, jobs name the flavors that they accept.
///
/// The names are those of Kueue's ResourceFlavor.
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
    /// Labels that nodes of the flavor bear. Absent: every node is one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    #[garde(
        length(max = 8),
        custom(rules::metadata_keys),
        custom(rules::label_values)
    )]
    #[x_kube(validation = rules::METADATA_KEYS.to_cel_rule(), validation = rules::LABEL_VALUES.to_cel_rule())]
    pub node_labels: BTreeMap<String, String>,
    /// Taints that these nodes bear: a task group that does not tolerate them,
    /// itself or by `tolerations`, is not given the flavor, and the next one is tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[garde(length(max = 8), dive)]
    pub node_taints: Vec<NodeTaint>,
    /// Taints that pods tolerate because they are given the flavor, beside what
    /// their jobs ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[garde(length(max = 8), dive)]
    pub tolerations: Vec<Toleration>,
}

/// A taint of nodes.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct NodeTaint {
    /// Key.
    #[schemars(length(min = 1, max = 317))]
    #[garde(length(min = 1, max = 317))]
    pub key: String,
    /// Value. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(length(max = 63)))]
    pub value: Option<String>,
    /// Effect on pods that do not tolerate the taint.
    pub effect: TolerationEffect,
}
