//! What a pod asks of its node besides room, in the engine's words.

use k8s_openapi::api::core::v1 as core;
use trellis_scheduler::{
    Constraints, Expression, NodeSelectorTerm, Operator, Preference, TaintEffect, Toleration,
    TolerationOperator,
};

/// The constraints of a pod.
#[must_use]
pub fn of_pod(pod: &core::PodSpec) -> Constraints {
    let affinity = pod.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required = affinity
        .and_then(|a| {
            a.required_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .map(|s| s.node_selector_terms.iter().map(term).collect())
        .unwrap_or_default();
    let preferred = affinity
        .and_then(|a| {
            a.preferred_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .into_iter()
        .flatten()
        .map(|p| Preference {
            weight: p.weight,
            term: term(&p.preference),
        })
        .collect();
    Constraints {
        node_selector: pod.node_selector.clone().unwrap_or_default(),
        required,
        preferred,
        tolerations: pod
            .tolerations
            .iter()
            .flatten()
            .filter(|t| !is_default(t))
            .map(toleration)
            .collect(),
    }
}

fn term(term: &core::NodeSelectorTerm) -> NodeSelectorTerm {
    let read = |list: &Option<Vec<core::NodeSelectorRequirement>>| {
        list.iter().flatten().map(expression).collect()
    };
    NodeSelectorTerm {
        match_expressions: read(&term.match_expressions),
        match_fields: read(&term.match_fields),
    }
}

fn expression(e: &core::NodeSelectorRequirement) -> Expression {
    let operator = match e.operator.as_str() {
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        // An unknown operator has been refused; `In` without values matches nothing.
        _ => Operator::In,
    };
    Expression {
        key: e.key.clone(),
        operator,
        values: e.values.clone().unwrap_or_default(),
    }
}

/// The effect of a taint. None for one that we do not know.
#[must_use]
pub fn effect(word: &str) -> Option<TaintEffect> {
    match word {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

/// A toleration in the engine's words.
#[must_use]
pub fn toleration(t: &core::Toleration) -> Toleration {
    Toleration {
        key: t.key.clone().filter(|k| !k.is_empty()),
        operator: if t.operator.as_deref() == Some("Exists") {
            TolerationOperator::Exists
        } else {
            TolerationOperator::Equal
        },
        value: t.value.clone().unwrap_or_default(),
        effect: t.effect.as_deref().and_then(effect),
    }
}

/// What `DefaultTolerationSeconds` adds to every pod (its documentation is in
/// kubernetes/plugin/pkg/admission/defaulttolerationseconds). It lets a pod
/// stay for a while on a node that goes away, and chooses none: nothing is
/// placed on a node that is not ready.
fn is_default(t: &core::Toleration) -> bool {
    let of_node = matches!(
        t.key.as_deref(),
        Some("node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable")
    );
    of_node && t.operator.as_deref() == Some("Exists") && t.effect.as_deref() == Some("NoExecute")
}
