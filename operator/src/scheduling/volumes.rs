//! Which nodes reach the volumes that a job mounts. Pure.

use std::collections::BTreeMap;

use trellis_scheduler::{Expression, NodeSelectorTerm, Operator};

use super::constraints;
use crate::watch::{SlimVolume, ZONE_LABELS};

/// What the volume of each claim asks of a node: of each list one term must match.
pub type Volumes = BTreeMap<String, Vec<Vec<NodeSelectorTerm>>>;

/// What a volume asks of a node: its node affinity (`CheckNodeAffinity` of
/// `k8s.io/component-helpers/storage/volume`), and the zones and regions of its
/// labels (kube-scheduler's VolumeZone).
#[must_use]
pub fn reach(volume: &SlimVolume) -> Vec<Vec<NodeSelectorTerm>> {
    let affinity = volume.spec.node_affinity.as_ref();
    let required = affinity.and_then(|a| a.required.as_ref());
    let labels = volume.metadata.labels.iter().flatten();
    required
        .map(constraints::terms)
        .into_iter()
        .chain(labels.map(|(label, values)| zone(label, values)))
        .collect()
}

/// The node is in one of the zones, by that label or by its successor; or it
/// is in no zone and no region at all.
fn zone(label: &str, values: &str) -> Vec<NodeSelectorTerm> {
    // Of a volume that is in several (`LabelZonesToSet`).
    let values: Vec<String> = values.split("__").map(str::to_owned).collect();
    let in_it = |label: &str| expression(label, Operator::In, values.clone());
    let nowhere = ZONE_LABELS.map(|label| expression(label, Operator::DoesNotExist, vec![]));
    let mut terms = vec![term(vec![in_it(label)]), term(nowhere.into())];
    let successor = match label {
        "failure-domain.beta.kubernetes.io/region" => Some("topology.kubernetes.io/region"),
        "failure-domain.beta.kubernetes.io/zone" => Some("topology.kubernetes.io/zone"),
        _ => None,
    };
    if let Some(successor) = successor {
        let not_there = expression(label, Operator::DoesNotExist, vec![]);
        terms.push(term(vec![not_there, in_it(successor)]));
    }
    terms
}

fn term(match_expressions: Vec<Expression>) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions,
        match_fields: Vec::new(),
    }
}

fn expression(key: &str, operator: Operator, values: Vec<String>) -> Expression {
    Expression {
        key: key.to_owned(),
        operator,
        values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use trellis_scheduler::{Constraints, Node, NodeName, Resources};

    fn reaches(volume: Value, labels: &[(&str, &str)]) -> bool {
        let volume: SlimVolume = serde_json::from_value(volume).unwrap();
        let mut node = Node::new(NodeName::new("n"), Resources::new());
        node.labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let constraints = Constraints {
            volumes: reach(&volume),
            ..Constraints::default()
        };
        constraints.are_met_by(&node)
    }

    #[test]
    fn node_affinity_is_required() {
        let volume = |terms: Value| {
            json!({"metadata": {}, "spec": {"nodeAffinity": {
                "required": {"nodeSelectorTerms": terms},
            }}})
        };
        let on = |name: &str| {
            json!({"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]},
            ]})
        };
        let here = [("kubernetes.io/hostname", "n")];
        assert!(reaches(volume(json!([on("n")])), &here));
        assert!(reaches(volume(json!([on("m"), on("n")])), &here));
        assert!(!reaches(volume(json!([on("m")])), &here));
        assert!(!reaches(volume(json!([on("n")])), &[]));
        assert!(!reaches(volume(json!([])), &here));
        assert!(reaches(json!({"metadata": {}, "spec": {}}), &here));
    }

    #[test]
    fn zones_of_labels_are_as_in_kubernetes() {
        const ZONE: &str = "topology.kubernetes.io/zone";
        const BETA: &str = "failure-domain.beta.kubernetes.io/zone";
        const REGION: &str = "topology.kubernetes.io/region";
        let volume = |label: &str, zones: &str| json!({"metadata": {"labels": {label: zones}}});
        for (label, zones, node, reached) in [
            (ZONE, "a", vec![(ZONE, "a")], true),
            (ZONE, "a", vec![(ZONE, "b")], false),
            (ZONE, "a__b", vec![(ZONE, "b")], true),
            // A node that says nothing of zones is not kept out.
            (ZONE, "a", vec![("rack", "r")], true),
            (ZONE, "a", vec![(REGION, "r")], false),
            (BETA, "a", vec![(ZONE, "a")], true),
            (BETA, "a", vec![(ZONE, "b")], false),
            (BETA, "a", vec![(BETA, "b"), (ZONE, "a")], false),
            (ZONE, "a", vec![(BETA, "a")], false),
            ("team", "a", vec![(ZONE, "b")], true),
        ] {
            assert_eq!(
                reaches(volume(label, zones), &node),
                reached,
                "{label}={zones} {node:?}"
            );
        }
    }
}
