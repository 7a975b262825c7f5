//! [`Topology`]: which nodes are close to each other.

use garde::Validate;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Which nodes are close to each other: nodes that bear the same value of a
/// label are one domain, and domains of one level lie within those of the level
/// before.
#[derive(
    CustomResource, KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq,
)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "Topology",
    plural = "topologies",
    shortname = "ttopo",
    category = "trellis",
    derive = "PartialEq",
    doc = "Which nodes are close to each other.",
    printcolumn(name = "Levels", type_ = "string", json_path = ".spec.levels"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TopologySpec {
    /// Keys of node labels, coarse to fine: block, rack, host. The domain of a
    /// node at a level is told by its labels of that level and of all before it;
    /// a node without one of them is in no domain of that level.
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 317)))]
    #[garde(custom(rules::topology_levels))]
    #[x_kube(validation = rules::TOPOLOGY_LEVELS.cel(), validation = rules::UNIQUE_LEVELS.cel())]
    pub levels: Vec<String>,
}

/// How close pods are to be to each other.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TopologyRequest {
    /// A level of a Topology: the key of a node label.
    #[schemars(length(min = 1, max = 317))]
    #[garde(custom(rules::topology_level))]
    #[x_kube(validation = rules::TOPOLOGY_LEVEL.cel())]
    pub level: String,
    /// Whether it must be so. Absent: Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<TopologyMode>,
}

/// Whether it must be so. Absent: Required.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TopologyMode {
    /// All pods are in one domain of the level, or wait.
    #[default]
    Required,
    /// As few domains of the level as can be.
    Preferred,
}

impl TopologyRequest {
    /// The mode, Required where none is given.
    #[must_use]
    pub fn mode(&self) -> TopologyMode {
        self.mode.unwrap_or_default()
    }
}
