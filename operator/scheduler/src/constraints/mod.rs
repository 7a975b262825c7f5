//! Constraints of pods on their node, apart from resources.

mod matching;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::node::TaintEffect;

/// Constraints of the pods of one task group, with Kubernetes' meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Constraints {
    /// Labels that the node must have: `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity: one of the terms must match. No terms: no requirement.
    pub required: Vec<NodeSelectorTerm>,
    /// Preferred node affinity: the weights of matching terms add up.
    pub preferred: Vec<PreferredSchedulingTerm>,
    /// Taints that the pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// Required node affinity of each volume that the pods mount: one of the terms of each volume
    /// must match. No volumes: no requirement.
    pub volumes: Vec<Vec<NodeSelectorTerm>>,
    /// Nodes that required anti-affinity of other pods forbids.
    pub kept_out: BTreeSet<LabelDomain>,
}

impl Constraints {
    /// Keeps the pods to nodes with these labels, in addition to their own constraints. If the
    /// pods' node selector requires another value, no node matches.
    pub fn narrow_to(&mut self, labels: &BTreeMap<String, String>) {
        for (key, value) in labels {
            let own = self.node_selector.entry(key.clone());
            if own.or_insert_with(|| value.clone()) != value {
                // A term without expressions matches nothing.
                self.required = vec![NodeSelectorTerm::default()];
            }
        }
    }

    /// Adds the constraints of other pods: then only nodes that both may use match. The preferences
    /// stay.
    pub(crate) fn add(&mut self, other: Self) {
        self.narrow_to(&other.node_selector);
        self.tolerations
            .retain(|toleration| other.tolerations.contains(toleration));
        self.volumes.extend(other.volumes);
        if !other.required.is_empty() && other.required != self.required {
            // All lists of terms in `volumes` must match.
            self.volumes.push(other.required);
        }
        self.volumes.sort_unstable();
        self.volumes.dedup();
        self.kept_out.extend(other.kept_out);
    }
}

/// The nodes that have a label with a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LabelDomain {
    /// The label.
    pub label: String,
    /// Its value.
    pub value: String,
}

/// A term of node affinity: all of its expressions must match. A term without
/// any matches nothing, as in Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeSelectorTerm {
    /// Conditions on labels of the node.
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Conditions on fields of the node. The only field is `metadata.name`; an expression on any
    /// other field matches nothing.
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// A preferred term of node affinity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PreferredSchedulingTerm {
    /// Weight, 1 to 100.
    pub weight: i32,
    /// The term.
    pub term: NodeSelectorTerm,
}

/// A condition on one label or field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeSelectorRequirement {
    /// The label or field.
    pub key: String,
    /// The comparison with the label or field.
    pub operator: NodeSelectorOperator,
    /// Values to compare with; for Gt and Lt one integer.
    pub values: Vec<String>,
}

/// A comparison with a label or field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeSelectorOperator {
    /// The key exists and has one of the values.
    In,
    /// The key does not exist, or has none of the values.
    NotIn,
    /// The key exists.
    Exists,
    /// The key does not exist.
    DoesNotExist,
    /// The value is an integer greater than the given one.
    Gt,
    /// The value is an integer less than the given one.
    Lt,
}

/// Taints that a pod tolerates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// The taint's key. None with Exists: every key.
    pub key: Option<String>,
    /// The comparison with the taint's value.
    pub operator: TolerationOperator,
    /// The value, for Equal.
    pub value: String,
    /// The effect. None: every effect.
    pub effect: Option<TaintEffect>,
}

/// A comparison with a taint's value.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum TolerationOperator {
    /// Any value matches.
    Exists,
    /// The value must equal the toleration's. This is Kubernetes' default.
    #[default]
    Equal,
}
