//! Nodes that reach the volumes that a job mounts. Pure.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::Reason;
use trellis_scheduler::{NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm};

use super::constraints;
use crate::observed::{SlimVolume, ZONE_LABELS};

/// Node requirements of the volumes that a job's pods mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeRequirements {
    /// Requirements of existing claims, by claim.
    pub claims: BTreeMap<String, VolumeRequirement>,
    /// Requirements of ephemeral claims, by task group and volume.
    pub ephemeral: BTreeMap<(String, String), VolumeRequirement>,
}

/// Node requirements of one claim's volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeRequirement {
    /// Lists of terms: in each list one term must match.
    pub node_terms: Vec<Vec<NodeSelectorTerm>>,
    /// True if all pods that mount the claim must be on one node.
    pub one_node: bool,
}

impl VolumeRequirement {
    /// Returns a requirement that no node meets.
    #[must_use]
    pub fn unreachable() -> Self {
        Self {
            node_terms: vec![vec![NodeSelectorTerm::default()]],
            one_node: false,
        }
    }
}

/// Returns true if a claim that all groups mount requires one node. If only some groups mount such
/// a claim, each group is placed on one node, and the commit checks that it is the same.
pub(crate) fn must_share_node<'a>(
    volumes: &VolumeRequirements,
    groups: impl Iterator<Item = &'a BTreeSet<String>> + Clone,
) -> bool {
    let one_node = volumes.claims.iter().filter(|(_, m)| m.one_node);
    let mut names = one_node.map(|(claim, _)| claim);
    groups.clone().count() > 1
        && names.any(|claim| groups.clone().all(|mounted| mounted.contains(claim)))
}

/// Returns why a gang that waits for room on one node needs a single node, in words.
#[must_use]
pub fn explain_one_node(volumes: &VolumeRequirements, waits: Reason) -> Option<String> {
    let for_closeness = matches!(waits, Reason::ExceedsTopology | Reason::TopologyFragmented);
    let mut one_node = volumes
        .claims
        .iter()
        .filter(|(_, m)| for_closeness && m.one_node);
    let (claim, _) = one_node.next()?;
    Some(format!(
        "PersistentVolumeClaim {claim:?}, which is ReadWriteOnce and not bound yet, keeps them together"
    ))
}

/// Returns the node requirements of a volume: its node affinity (`CheckNodeAffinity` of
/// `k8s.io/component-helpers/storage/volume`), and the zones and regions of its labels
/// (kube-scheduler's VolumeZone).
#[must_use]
pub fn volume_node_terms(volume: &SlimVolume) -> Vec<Vec<NodeSelectorTerm>> {
    let affinity = volume.spec.node_affinity.as_ref();
    let required = affinity.and_then(|a| a.required.as_ref());
    let labels = volume.metadata.labels.iter().flatten();
    let zones = labels.filter(|(label, _)| ZONE_LABELS.contains(&label.as_str()));
    required
        .map(constraints::convert_terms)
        .into_iter()
        .chain(zones.map(|(label, values)| zone_terms(label, values)))
        .collect()
}

/// Returns the terms for the nodes that meet at least one of these requirements: one term must
/// match. None if all nodes do.
#[must_use]
pub(crate) fn union_terms(
    reaches: impl IntoIterator<Item = Vec<Vec<NodeSelectorTerm>>>,
) -> Option<Vec<NodeSelectorTerm>> {
    // Local volumes differ in one value of one label: together they are one term.
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut terms = BTreeSet::new();
    for reach in reaches {
        for term in intersect_terms(reach)? {
            match (
                term.match_expressions.as_slice(),
                term.match_fields.as_slice(),
            ) {
                ([], []) => {}
                ([expression], []) if expression.operator == NodeSelectorOperator::In => {
                    let allowed = values.entry(expression.key.clone()).or_default();
                    allowed.extend(expression.values.iter().cloned());
                }
                _ => {
                    terms.insert(term);
                }
            }
        }
    }
    let merged = values.into_iter().map(|(key, values)| {
        let values = values.into_iter().collect();
        new_term(vec![new_expression(&key, NodeSelectorOperator::In, values)])
    });
    let found: Vec<_> = merged.chain(terms).collect();
    Some(match found.is_empty() {
        true => vec![NodeSelectorTerm::default()],
        false => found,
    })
}

/// Returns the requirements as one list, of which one term must match. None if all nodes do.
fn intersect_terms(reach: Vec<Vec<NodeSelectorTerm>>) -> Option<Vec<NodeSelectorTerm>> {
    // A term without expressions matches nothing, but joined with another term it would match.
    let is_some =
        |t: &NodeSelectorTerm| !(t.match_expressions.is_empty() && t.match_fields.is_empty());
    reach.into_iter().reduce(|left, right| {
        let (left, right) = (
            left.iter().filter(|t| is_some(t)),
            right.iter().filter(|t| is_some(t)),
        );
        left.flat_map(|a| {
            right.clone().map(|b| NodeSelectorTerm {
                match_expressions: [&a.match_expressions[..], &b.match_expressions].concat(),
                match_fields: [&a.match_fields[..], &b.match_fields].concat(),
            })
        })
        .collect()
    })
}

/// Returns the terms for nodes in one of the zones, by this label or by its successor, and for
/// nodes without any zone or region label.
fn zone_terms(label: &str, values: &str) -> Vec<NodeSelectorTerm> {
    // A volume may be in several zones (`LabelZonesToSet`).
    let values: Vec<String> = values.split("__").map(str::to_owned).collect();
    let in_it = |label: &str| new_expression(label, NodeSelectorOperator::In, values.clone());
    let nowhere =
        ZONE_LABELS.map(|label| new_expression(label, NodeSelectorOperator::DoesNotExist, vec![]));
    let mut terms = vec![new_term(vec![in_it(label)]), new_term(nowhere.into())];
    let successor = match label {
        "failure-domain.beta.kubernetes.io/region" => Some("topology.kubernetes.io/region"),
        "failure-domain.beta.kubernetes.io/zone" => Some("topology.kubernetes.io/zone"),
        _ => None,
    };
    if let Some(successor) = successor {
        let not_there = new_expression(label, NodeSelectorOperator::DoesNotExist, vec![]);
        terms.push(new_term(vec![not_there, in_it(successor)]));
    }
    terms
}

fn new_term(match_expressions: Vec<NodeSelectorRequirement>) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions,
        match_fields: Vec::new(),
    }
}

fn new_expression(
    key: &str,
    operator: NodeSelectorOperator,
    values: Vec<String>,
) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator,
        values,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trellis_scheduler::{Constraints, Node, NodeName, Resources};

    use super::*;

    fn reaches(volume: Value, labels: &[(&str, &str)]) -> bool {
        let volume: SlimVolume = serde_json::from_value(volume).unwrap();
        let mut node = Node::new(NodeName::new("n"), Resources::new());
        node.labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let constraints = Constraints {
            volumes: volume_node_terms(&volume),
            ..Constraints::default()
        };
        constraints.are_met_by(&node)
    }

    #[test]
    fn volume_is_reached_only_by_nodes_matching_its_affinity() {
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

    /// The node must reach one of several volumes, with all requirements of that volume.
    #[test]
    fn node_must_reach_one_of_several_volumes() {
        let on = |node: &str, labels: Value| -> SlimVolume {
            serde_json::from_value(
                json!({"metadata": {"labels": labels}, "spec": {"nodeAffinity": {
                    "required": {"nodeSelectorTerms": [{"matchExpressions": [
                        {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
                    ]}]},
                }}}),
            )
            .unwrap()
        };
        const ZONE: &str = "topology.kubernetes.io/zone";
        let volumes = [
            on("a", json!({})),
            on("b", json!({})),
            on("c", json!({ZONE: "z"})),
        ];
        let terms = union_terms(volumes.iter().map(volume_node_terms)).unwrap();
        assert_eq!(terms.len(), 3, "a and b are one: {terms:?}");
        let does = |name: &str, zone: Option<&str>| {
            let mut node = Node::new(NodeName::new(name), Resources::new());
            let host = ("kubernetes.io/hostname".to_owned(), name.to_owned());
            let zone = zone.map(|zone| (ZONE.to_owned(), zone.to_owned()));
            node.labels = [host].into_iter().chain(zone).collect();
            let constraints = Constraints {
                volumes: vec![terms.clone()],
                ..Constraints::default()
            };
            constraints.are_met_by(&node)
        };
        assert!(does("a", None) && does("b", Some("y")) && !does("d", Some("z")));
        assert!(does("c", Some("z")) && does("c", None) && !does("c", Some("y")));
        let everywhere: SlimVolume = serde_json::from_value(json!({"metadata": {}})).unwrap();
        let either = [
            volume_node_terms(&volumes[0]),
            volume_node_terms(&everywhere),
        ];
        assert_eq!(union_terms(either), None);
        // A volume that no node reaches adds no term, even if it has other requirements.
        let no_node = VolumeRequirement::unreachable().node_terms;
        let zoned = [no_node.clone(), volume_node_terms(&on("a", json!({})))].concat();
        assert_eq!(union_terms([zoned]), Some(no_node[0].clone()));
        assert_eq!(union_terms([]), Some(no_node[0].clone()));
    }

    #[test]
    fn volume_zone_labels_match_nodes_as_in_kubernetes() {
        const ZONE: &str = "topology.kubernetes.io/zone";
        const BETA: &str = "failure-domain.beta.kubernetes.io/zone";
        const REGION: &str = "topology.kubernetes.io/region";
        let volume = |label: &str, zones: &str| json!({"metadata": {"labels": {label: zones}}});
        for (label, zones, node, reached) in [
            (ZONE, "a", vec![(ZONE, "a")], true),
            (ZONE, "a", vec![(ZONE, "b")], false),
            (ZONE, "a__b", vec![(ZONE, "b")], true),
            // A node without zone labels is not excluded.
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
