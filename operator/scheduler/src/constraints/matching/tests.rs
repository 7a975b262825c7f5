//! Node selectors, tolerations and affinity, matched as in Kubernetes.

use std::collections::BTreeMap;

use super::*;
use crate::constraints::LabelDomain;
use crate::resources::Resources;

fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
    Taint {
        key: key.into(),
        value: value.into(),
        effect,
    }
}

fn toleration(
    key: Option<&str>,
    operator: TolerationOperator,
    value: &str,
    effect: Option<TaintEffect>,
) -> Toleration {
    Toleration {
        key: key.map(Into::into),
        operator,
        value: value.into(),
        effect,
    }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn narrowing_labels_are_added_to_the_node_selector() {
    let node = |rack: &str| Node {
        labels: labels(&[("rack", rack), ("zone", "a")]),
        ..Node::new(NodeName::new(rack), Resources::default())
    };
    let met = |selector: &[(&str, &str)], domain: &[(&str, &str)]| {
        let mut constraints = Constraints {
            node_selector: labels(selector),
            ..Constraints::default()
        };
        constraints.narrow_to(&labels(domain));
        ["r1", "r2"].map(|rack| constraints.are_met_by(&node(rack)))
    };
    assert_eq!(met(&[("zone", "a")], &[("rack", "r2")]), [false, true]);
    assert_eq!(met(&[("rack", "r2")], &[("rack", "r2")]), [false, true]);
    assert_eq!(met(&[("rack", "r1")], &[("rack", "r2")]), [false, false]);
    assert_eq!(met(&[("rack", "r1")], &[]), [true, false]);
}

#[test]
fn tolerations_match_as_in_kubernetes() {
    use TaintEffect::{NoExecute, NoSchedule};
    use TolerationOperator::{Equal, Exists};
    let gpu = taint("nvidia.com/gpu", "present", NoSchedule);
    for (toleration, tolerated) in [
        (toleration(None, Exists, "", None), true),
        (toleration(None, Exists, "", Some(NoExecute)), false),
        (toleration(None, Equal, "present", None), false),
        (toleration(Some("nvidia.com/gpu"), Exists, "", None), true),
        (
            toleration(Some("nvidia.com/gpu"), Exists, "other", Some(NoSchedule)),
            true,
        ),
        (
            toleration(Some("nvidia.com/gpu"), Equal, "present", None),
            true,
        ),
        (toleration(Some("nvidia.com/gpu"), Equal, "", None), false),
        (toleration(Some("amd.com/gpu"), Exists, "", None), false),
    ] {
        assert_eq!(toleration.tolerates(&gpu), tolerated, "{toleration:?}");
    }
}

#[test]
fn only_hard_taints_repel() {
    let none = Constraints::default();
    let soft = taint("spot", "", TaintEffect::PreferNoSchedule);
    let hard = taint("broken", "", TaintEffect::NoExecute);
    assert_eq!(none.repelling_taint(std::slice::from_ref(&soft)), None);
    assert_eq!(
        none.count_discouraging_taints(&[soft.clone(), hard.clone()]),
        1
    );
    assert_eq!(none.repelling_taint(&[soft, hard.clone()]), Some(&hard));
}

#[test]
fn expressions_match_as_in_kubernetes() {
    use NodeSelectorOperator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    for (operator, values, actual, matches) in [
        (In, vec!["a", "b"], Some("b"), true),
        (In, vec!["a"], None, false),
        (NotIn, vec!["a"], Some("a"), false),
        (NotIn, vec!["a"], Some("b"), true),
        (NotIn, vec!["a"], None, true),
        (Exists, vec![], Some(""), true),
        (Exists, vec![], None, false),
        (DoesNotExist, vec![], None, true),
        (DoesNotExist, vec![], Some("a"), false),
        (Gt, vec!["7"], Some("8"), true),
        (Gt, vec!["7"], Some("7"), false),
        (Gt, vec!["7"], Some("eight"), false),
        (Gt, vec!["7"], None, false),
        (Gt, vec!["6", "7"], Some("8"), false),
        (Lt, vec!["-1"], Some("-2"), true),
        (Lt, vec!["x"], Some("1"), false),
    ] {
        let expression = NodeSelectorRequirement {
            key: "k".into(),
            operator,
            values: values.into_iter().map(Into::into).collect(),
        };
        assert_eq!(
            expression.matches(actual),
            matches,
            "{expression:?} {actual:?}"
        );
    }
}

#[test]
fn terms_are_ored_expressions_anded_and_an_empty_term_matches_nothing() {
    let name = NodeName::new("n1");
    let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
    let is = |key: &str, value: &str| NodeSelectorRequirement {
        key: key.into(),
        operator: NodeSelectorOperator::In,
        values: vec![value.into()],
    };
    let term = |expressions: Vec<NodeSelectorRequirement>, fields: Vec<NodeSelectorRequirement>| {
        NodeSelectorTerm {
            match_expressions: expressions,
            match_fields: fields,
        }
    };
    let allows = |required: Vec<NodeSelectorTerm>| {
        Constraints {
            required,
            ..Constraints::default()
        }
        .required_affinity_matches(&name, &labels)
    };
    assert!(allows(vec![]));
    assert!(!allows(vec![term(vec![], vec![])]));
    assert!(allows(vec![term(
        vec![is("zone", "a")],
        vec![is("metadata.name", "n1")]
    )]));
    assert!(!allows(vec![term(
        vec![is("zone", "a")],
        vec![is("metadata.name", "n2")]
    )]));
    assert!(!allows(vec![term(
        vec![],
        vec![is("metadata.namespace", "n1")]
    )]));
    assert!(allows(vec![
        term(vec![is("zone", "b")], vec![]),
        term(vec![is("zone", "a")], vec![])
    ]));
}

#[test]
fn node_must_match_a_term_of_every_volume() {
    let zone = |value: &str| NodeSelectorTerm {
        match_expressions: vec![NodeSelectorRequirement {
            key: "zone".into(),
            operator: NodeSelectorOperator::In,
            values: vec![value.into()],
        }],
        match_fields: vec![],
    };
    let name = NodeName::new("n1");
    let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
    let reaches = |volumes: Vec<Vec<NodeSelectorTerm>>| {
        Constraints {
            volumes,
            ..Constraints::default()
        }
        .can_reach_volumes(&name, &labels)
    };
    assert!(reaches(vec![]));
    assert!(reaches(vec![vec![zone("a")]]));
    assert!(reaches(vec![vec![zone("b"), zone("a")], vec![zone("a")]]));
    assert!(!reaches(vec![vec![zone("a")], vec![zone("b")]]));
    // As in Kubernetes: an affinity without a term matches nothing.
    assert!(!reaches(vec![vec![]]));
}

#[test]
fn anti_affinity_excludes_only_the_nodes_of_its_domain() {
    let out = |label: &str, value: &str| LabelDomain {
        label: label.into(),
        value: value.into(),
    };
    let constraints = Constraints {
        kept_out: [out("zone", "a"), out("rack", "r1")].into(),
        ..Constraints::default()
    };
    let kept_out = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        constraints.is_excluded_by_anti_affinity(&labels.collect::<BTreeMap<String, String>>())
    };
    assert!(kept_out(&[("zone", "a")]));
    assert!(kept_out(&[("zone", "b"), ("rack", "r1")]));
    assert!(!kept_out(&[("zone", "b"), ("rack", "r2")]));
    assert!(!kept_out(&[]));
}

#[test]
fn weights_of_met_preferences_add_up() {
    let zone = |value: &str, weight| super::super::PreferredSchedulingTerm {
        weight,
        term: NodeSelectorTerm {
            match_expressions: vec![NodeSelectorRequirement {
                key: "zone".into(),
                operator: NodeSelectorOperator::In,
                values: vec![value.into()],
            }],
            match_fields: vec![],
        },
    };
    let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
    let constraints = Constraints {
        preferred: vec![zone("a", 10), zone("b", 100), zone("a", 5)],
        ..Constraints::default()
    };
    assert_eq!(
        constraints.preference_weight(&NodeName::new("n"), &labels),
        15
    );
}
