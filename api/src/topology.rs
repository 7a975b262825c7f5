//! [`Topology`]: closeness of nodes.

use garde::Validate;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::rules;

/// Closeness of nodes. Nodes with the same value of a label form one domain, and the domains of
/// each level lie within those of the previous level.
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
    doc = "Closeness of nodes.",
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
    /// Levels, coarse to fine: block, rack, host. Nodes with the same labels of a level and of all
    /// levels before it form one domain of that level. A node without one of these labels is in no
    /// domain of the level.
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
    /// Name by which jobs request the level, such as `rack`. Jobs that use this name run in every
    /// cluster with a level of that name. Absent: `nodeLabel`.
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
    /// Returns the name by which jobs request the level.
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
    /// Name of a level of a Topology: the gang waits until all pods fit into one domain of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    #[garde(
        inner(custom(rules::topology_level)),
        custom(rules::required_or_preferred(self))
    )]
    #[x_kube(validation = rules::TOPOLOGY_LEVEL.to_cel_rule())]
    pub required: Option<String>,
    /// Name of a level of a Topology: the scheduler uses as few domains of it as possible. With
    /// `required`, it must be a finer level of the same Topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    #[garde(inner(custom(rules::topology_level)))]
    #[x_kube(validation = rules::TOPOLOGY_LEVEL.to_cel_rule())]
    pub preferred: Option<String>,
}
