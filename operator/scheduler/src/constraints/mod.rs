//! What a pod asks of its node besides room.

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
    /// Preferred node affinity: the weights of the terms that match are added up.
    pub preferred: Vec<Preference>,
    /// Taints that do not keep the pods away.
    pub tolerations: Vec<Toleration>,
    /// Required node affinity of each volume that the pods mount: of each one of
    /// the terms must match. No volumes: no requirement.
    pub volumes: Vec<Vec<NodeSelectorTerm>>,
    /// Where required anti-affinity of other pods keeps them out.
    pub kept_out: BTreeSet<LabelDomain>,
}

impl Constraints {
    /// Keeps the pods to nodes that bear these labels, beside all that the pods ask for
    /// themselves. Where the pods' node selector asks for another value, no node is left.
    pub fn narrow_to(&mut self, labels: &BTreeMap<String, String>) {
        for (key, value) in labels {
            let own = self.node_selector.entry(key.clone());
            if own.or_insert_with(|| value.clone()) != value {
                // A term without expressions matches nothing.
                self.required = vec![NodeSelectorTerm::default()];
            }
        }
    }
}

/// The nodes that bear a label with a value.
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
    /// On the node's labels.
    pub match_expressions: Vec<Expression>,
    /// On the node's fields. There is one, `metadata.name`; an expression on
    /// another matches nothing.
    pub match_fields: Vec<Expression>,
}

/// A term that is wished for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Preference {
    /// How much, 1 to 100.
    pub weight: i32,
    /// What for.
    pub term: NodeSelectorTerm,
}

/// A condition on one label or field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Expression {
    /// The label or field.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// What it is compared with. For Gt and Lt one integer.
    pub values: Vec<String>,
}

/// How a label or field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// It is there and one of the values.
    In,
    /// It is not there, or none of the values.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
    /// It is an integer greater than the value.
    Gt,
    /// It is an integer less than the value.
    Lt,
}

/// Taints that do not keep a pod away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// The taint's key. None, with Exists: every key.
    pub key: Option<String>,
    /// How the taint's value is compared.
    pub operator: TolerationOperator,
    /// The value, for Equal.
    pub value: String,
    /// The effect. None: every effect.
    pub effect: Option<TaintEffect>,
}

/// How a taint's value is compared.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum TolerationOperator {
    /// Any value will do.
    Exists,
    /// The value is the toleration's: what Kubernetes takes where none is given.
    #[default]
    Equal,
}
