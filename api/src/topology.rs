//! [`Topology`]: which nodes are close to each other.

use garde::Validate;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::rules;

/// Which nodes are close to each other: nodes that bear the same value of a
/// label are one domain, and domains of one level lie within those of the level
/// before.
#[derive(
    CustomResource, KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq,
)]
#[expect(clippy::duplicated_attributes, reason = "each column has a type")]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "Topology",
    plural = "topologies",
    shortname = "ttopo",
    category = "trellis",
    derive = "PartialEq",
    doc = "Which nodes are close to each other.",
    printcolumn(
        name = "Coarsest",
        type_ = "string",
        json_path = ".spec.levels[0].nodeLabel"
    ),
    printcolumn(
        name = "Finest",
        type_ = "string",
        json_path = ".spec.levels[-1:].nodeLabel"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TopologySpec {
    /// Levels, coarse to fine: block, rack, host. Nodes with the same labels of a
    /// level and of all levels before it are one domain of that level; a node without
    /// one of these labels is in no domain of it.
    #[schemars(length(min = 1, max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[garde(length(min = 1, max = 8), dive, custom(rules::unique_levels))]
    #[x_kube(validation = rules::UNIQUE_LEVEL_LABELS.to_cel_rule(), validation = rules::UNIQUE_LEVEL_NAMES.to_cel_rule())]
    pub levels: Vec<TopologyLevel>,
}

/// A level of a topology.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TopologyLevel {
    /// Name by which jobs ask for the level, such as `rack`. Jobs that name levels by
    /// it run in every cluster that has a level of that name. Absent: `nodeLabel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    #[garde(inner(custom(rules::topology_level)))]
    #[x_kube(validation = rules::TOPOLOGY_LEVEL.to_cel_rule())]
    pub name: Option<String>,
    /// Key of the node label whose values are the domains of the level.
    #[schemars(length(min = 1, max = 317))]
    #[garde(custom(rules::level_label))]
    #[x_kube(validation = rules::LEVEL_LABEL.to_cel_rule())]
    pub node_label: String,
}

impl TopologyLevel {
    /// The name by which jobs ask for the level.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.node_label)
    }
}

/// Closeness of pods: `required`, `preferred`, or both.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::REQUIRED_OR_PREFERRED.to_cel_rule())]
pub struct TopologyRequest {
    /// Name of a level of a Topology: all pods are in one domain of it, or wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    #[garde(
        inner(custom(rules::topology_level)),
        custom(rules::required_or_preferred(self))
    )]
    #[x_kube(validation = rules::TOPOLOGY_LEVEL.to_cel_rule())]
    pub required: Option<String>,
    /// Name of a level of a Topology: the pods are in as few domains of it as possible.
    /// Beside `required`, a finer level of the same Topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    #[garde(inner(custom(rules::topology_level)))]
    #[x_kube(validation = rules::TOPOLOGY_LEVEL.to_cel_rule())]
    pub preferred: Option<String>,
}
