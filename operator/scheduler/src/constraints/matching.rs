//! Checks if a node meets constraints: the rules of `k8s.io/component-helpers/scheduling/corev1`
//! (nodeaffinity and helpers).

use super::{
    Constraints, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, Toleration,
    TolerationOperator,
};
use crate::ids::NodeName;
use crate::node::{Node, Taint, TaintEffect};
use crate::state::LabelSource;

impl Constraints {
    /// True if the node's labels, name and taints allow the pods. Does not check readiness,
    /// cordons, health or free capacity.
    #[must_use]
    pub fn are_met_by(&self, node: &Node) -> bool {
        self.node_selector_matches(&node.labels)
            && self.required_affinity_matches(&node.name, &node.labels)
            && self.repelling_taint(&node.taints).is_none()
            && self.can_reach_volumes(&node.name, &node.labels)
            && !self.is_excluded_by_anti_affinity(&node.labels)
    }

    /// True if the pods tolerate the taint.
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|t| t.tolerates(taint))
    }

    /// Returns the first taint that keeps the pods off the node.
    pub(crate) fn repelling_taint<'t>(&self, taints: &'t [Taint]) -> Option<&'t Taint> {
        taints
            .iter()
            .filter(|t| t.effect != TaintEffect::PreferNoSchedule)
            .find(|t| !self.tolerates(t))
    }

    /// Counts the taints with the effect `PreferNoSchedule` that the pods do not tolerate.
    pub(crate) fn count_discouraging_taints(&self, taints: &[Taint]) -> usize {
        taints
            .iter()
            .filter(|t| t.effect == TaintEffect::PreferNoSchedule)
            .filter(|t| !self.tolerates(t))
            .count()
    }

    /// True if the node has all labels of the node selector.
    pub(crate) fn node_selector_matches(&self, labels: &impl LabelSource) -> bool {
        self.node_selector
            .iter()
            .all(|(key, value)| labels.label(key) == Some(value))
    }

    /// Returns the first label of the node selector, by its key, that the node does not have.
    pub(crate) fn missing_label(&self, labels: &impl LabelSource) -> Option<(&str, &str)> {
        let mut wanted = self.node_selector.iter();
        wanted
            .find(|(key, value)| labels.label(key) != Some(value))
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// True if the result may depend on the node's own name.
    pub(crate) fn depends_on_node_name(&self) -> bool {
        let required = self.required.iter().chain(self.volumes.iter().flatten());
        let mut terms = required.chain(self.preferred.iter().map(|p| &p.term));
        terms.any(|term| !term.match_fields.is_empty())
    }

    /// True if required node affinity allows the node.
    pub(crate) fn required_affinity_matches(
        &self,
        name: &NodeName,
        labels: &impl LabelSource,
    ) -> bool {
        self.required.is_empty() || self.required.iter().any(|t| t.matches(name, labels))
    }

    /// True if the pods can reach all their volumes from the node.
    pub(crate) fn can_reach_volumes(&self, name: &NodeName, labels: &impl LabelSource) -> bool {
        self.volumes
            .iter()
            .all(|terms| terms.iter().any(|t| t.matches(name, labels)))
    }

    /// True if anti-affinity of other pods keeps the pods off the node.
    pub(crate) fn is_excluded_by_anti_affinity(&self, labels: &impl LabelSource) -> bool {
        self.kept_out
            .iter()
            .any(|domain| labels.label(&domain.label) == Some(&domain.value))
    }

    /// Returns the sum of the weights of the preferences that the node meets.
    pub(crate) fn preference_weight(&self, name: &NodeName, labels: &impl LabelSource) -> i64 {
        self.preferred
            .iter()
            .filter(|p| p.term.matches(name, labels))
            .fold(0, |sum, p| sum.saturating_add(i64::from(p.weight)))
    }
}

impl Toleration {
    /// True if pods with this toleration tolerate the taint.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        match (&self.key, self.operator) {
            (None, TolerationOperator::Exists) => true,
            (Some(key), TolerationOperator::Exists) => *key == taint.key,
            (Some(key), TolerationOperator::Equal) => {
                *key == taint.key && self.value == taint.value
            }
            // Invalid in Kubernetes: a toleration without a key and without Exists tolerates
            // nothing.
            (None, TolerationOperator::Equal) => false,
        }
    }
}

impl NodeSelectorTerm {
    fn matches(&self, name: &NodeName, labels: &impl LabelSource) -> bool {
        if self.match_expressions.is_empty() && self.match_fields.is_empty() {
            return false;
        }
        self.match_expressions
            .iter()
            .all(|e| e.matches(labels.label(&e.key)))
            && self
                .match_fields
                .iter()
                .all(|e| e.key == "metadata.name" && e.matches(Some(name.as_str())))
    }
}

impl NodeSelectorRequirement {
    pub(crate) fn matches(&self, actual: Option<&str>) -> bool {
        match self.operator {
            NodeSelectorOperator::In => actual.is_some_and(|a| self.has_value(a)),
            NodeSelectorOperator::NotIn => actual.is_none_or(|a| !self.has_value(a)),
            NodeSelectorOperator::Exists => actual.is_some(),
            NodeSelectorOperator::DoesNotExist => actual.is_none(),
            NodeSelectorOperator::Gt => {
                self.compare_integers(actual, |actual, bound| actual > bound)
            }
            NodeSelectorOperator::Lt => {
                self.compare_integers(actual, |actual, bound| actual < bound)
            }
        }
    }

    fn has_value(&self, actual: &str) -> bool {
        self.values.iter().any(|v| v == actual)
    }

    fn compare_integers(&self, actual: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let [bound] = self.values.as_slice() else {
            return false;
        };
        match (actual.and_then(|a| a.parse().ok()), bound.parse().ok()) {
            (Some(actual), Some(bound)) => holds(actual, bound),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
