//! Tests that a lookup by traits finds the same nodes as a check of each node.
#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;
use crate::constraints::{
    LabelDomain, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm,
    PreferredSchedulingTerm, Toleration, TolerationOperator,
};
use crate::ids::NodeName;
use crate::node::{Node, Taint, TaintEffect};
use crate::resources::Resources;
use crate::state::Catalog;
use crate::state::nodes::UNSCHEDULABLE;
use crate::time::Time;

const NODES: usize = 6;
const KEYS: [&str; 3] = ["a", "b", "c"];

fn any_key() -> impl Strategy<Value = String> {
    (0..KEYS.len()).prop_map(|at| KEYS[at].to_owned())
}

/// Values include numbers, for operators that compare them.
fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![Just("x".to_owned()), (0..4_u8).prop_map(|n| n.to_string())]
}

fn any_taint() -> impl Strategy<Value = Taint> {
    let effect = prop_oneof![
        Just(TaintEffect::NoSchedule),
        Just(TaintEffect::PreferNoSchedule),
        Just(TaintEffect::NoExecute),
    ];
    (any_key(), effect).prop_map(|(key, effect)| Taint {
        key,
        value: String::new(),
        effect,
    })
}

fn any_node() -> impl Strategy<Value = Node> {
    (
        0..NODES,
        prop::collection::btree_map(any_key(), any_value(), 0..3),
        prop::collection::vec(any_taint(), 0..3),
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.2),
        prop::option::weighted(0.1, Just("ill".to_owned())),
    )
        .prop_map(
            |(at, labels, taints, ready, unschedulable, unhealthy)| Node {
                labels,
                taints,
                ready,
                unschedulable,
                unhealthy,
                ..Node::new(NodeName::new(format!("n{at}")), Resources::new())
            },
        )
}

fn any_term() -> impl Strategy<Value = NodeSelectorTerm> {
    let operator = prop_oneof![
        Just(NodeSelectorOperator::In),
        Just(NodeSelectorOperator::NotIn),
        Just(NodeSelectorOperator::Exists),
        Just(NodeSelectorOperator::DoesNotExist),
        Just(NodeSelectorOperator::Gt),
        Just(NodeSelectorOperator::Lt),
    ];
    let expression = (
        any_key(),
        operator,
        prop::collection::vec(any_value(), 0..3),
    );
    let expression = expression.prop_map(|(key, operator, values)| NodeSelectorRequirement {
        key,
        operator,
        values,
    });
    let field = prop::collection::vec((0..NODES).prop_map(|at| format!("n{at}")), 1..3);
    let field = field.prop_map(|values| NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: NodeSelectorOperator::In,
        values,
    });
    (
        prop::collection::vec(expression, 0..3),
        prop::option::weighted(0.1, field),
    )
        .prop_map(|(match_expressions, field)| NodeSelectorTerm {
            match_expressions,
            match_fields: field.into_iter().collect(),
        })
}

fn any_constraints() -> impl Strategy<Value = Constraints> {
    let terms = || prop::collection::vec(any_term(), 0..3);
    let preference = (any_term(), -1..4_i32);
    let preference = preference.prop_map(|(term, weight)| PreferredSchedulingTerm { weight, term });
    let key = prop_oneof![any_key(), Just(UNSCHEDULABLE.to_owned())];
    let toleration = key.prop_map(|key| Toleration {
        key: Some(key),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
    });
    let domain = (any_key(), any_value()).prop_map(|(label, value)| LabelDomain { label, value });
    (
        prop::collection::btree_map(any_key(), any_value(), 0..2),
        terms(),
        prop::collection::vec(preference, 0..3),
        prop::collection::vec(toleration, 0..3),
        prop::collection::vec(terms(), 0..2),
        prop::collection::btree_set(domain, 0..2),
    )
        .prop_map(
            |(node_selector, required, preferred, tolerations, volumes, kept_out)| Constraints {
                node_selector,
                required,
                preferred,
                tolerations,
                volumes,
                kept_out,
            },
        )
}

#[derive(Clone, Debug)]
enum Event {
    Apply(Node),
    Delete(usize),
    Ask(Constraints),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any_node().prop_map(Event::Apply),
        1 => (0..NODES).prop_map(Event::Delete),
        4 => any_constraints().prop_map(Event::Ask),
    ]
}

fn check(signature: &ConstraintSignature, nodes: &Nodes) -> Result<(), TestCaseError> {
    let constraints = signature.constraints();
    let mut special = 0;
    for node in (0..nodes.index_bound()).map(NodeIdx::of) {
        let met = nodes.properties(node);
        let met = met.filter(|facts| is_allowed(constraints, nodes, node, facts));
        prop_assert_eq!(signature.allows(node), met.is_some(), "{:?}", constraints);
        let wanted = met.map(|facts| tier(constraints, nodes, node, facts));
        let wanted = wanted.unwrap_or_default();
        prop_assert_eq!(signature.tier(node), wanted, "{:?}", constraints);
        special += usize::from(wanted != PreferenceTier::default());
    }
    prop_assert_eq!(signature.tiered_nodes, special);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16 * ProptestConfig::default().cases))]

    #[test]
    fn lookup_by_traits_finds_the_same_nodes_as_a_full_scan(
        events in prop::collection::vec(any_event(), 1..16),
    ) {
        let (mut nodes, mut catalog) = (Nodes::default(), Catalog::default());
        let mut traits = NodeTraits::default();
        let mut asked: Vec<ConstraintSignature> = Vec::new();
        for event in events {
            match event {
                Event::Apply(node) => {
                    nodes.apply(node, Time::default(), &mut catalog);
                }
                Event::Delete(at) => {
                    nodes.delete(&NodeName::new(format!("n{at}")));
                }
                Event::Ask(constraints) => asked.push(ConstraintSignature::new(Arc::new(constraints))),
            }
            for signature in &mut asked {
                signature.refresh(&nodes, &mut traits);
                check(signature, &nodes)?;
            }
        }
    }
}
