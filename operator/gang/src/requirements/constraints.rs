//! Node requirements of a pod besides resources, in the engine's form.

use k8s_openapi::api::core::v1 as core;
use trellis_scheduler::{
    Constraints, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm,
    PreferredSchedulingTerm, TaintEffect, Toleration, TolerationOperator,
};

use crate::observed::SlimDaemonPodSpec;

/// Returns the constraints of a pod, without the constraints of its volumes and of other pods.
#[must_use]
pub fn from_pod(pod: &core::PodSpec) -> Constraints {
    let affinity = pod.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    Constraints {
        node_selector: pod.node_selector.clone().unwrap_or_default(),
        tolerations: convert_tolerations(pod.tolerations.iter().flatten()),
        ..from_affinity(affinity)
    }
}

/// Returns the constraints of a DaemonSet's pods, with the tolerations that its controller adds to
/// them (`AddOrUpdateDaemonPodTolerations`).
#[must_use]
pub(crate) fn from_daemon_pod(pod: &SlimDaemonPodSpec) -> Constraints {
    let added = [
        ("node.kubernetes.io/not-ready", TaintEffect::NoExecute),
        ("node.kubernetes.io/unreachable", TaintEffect::NoExecute),
        ("node.kubernetes.io/disk-pressure", TaintEffect::NoSchedule),
        (
            "node.kubernetes.io/memory-pressure",
            TaintEffect::NoSchedule,
        ),
        ("node.kubernetes.io/pid-pressure", TaintEffect::NoSchedule),
        ("node.kubernetes.io/unschedulable", TaintEffect::NoSchedule),
    ];
    let network = [(
        "node.kubernetes.io/network-unavailable",
        TaintEffect::NoSchedule,
    )];
    let network = network.iter().filter(|_| pod.host_network);
    let added = added.iter().chain(network).map(|(key, effect)| Toleration {
        key: Some((*key).to_owned()),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: Some(*effect),
    });
    Constraints {
        node_selector: pod.node_selector.clone(),
        tolerations: convert_tolerations(&pod.tolerations)
            .into_iter()
            .chain(added)
            .collect(),
        ..from_affinity(pod.node.node_affinity.as_ref())
    }
}

fn from_affinity(affinity: Option<&core::NodeAffinity>) -> Constraints {
    let required = affinity
        .and_then(|a| {
            a.required_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .map(convert_terms)
        .unwrap_or_default();
    let preferred = affinity
        .and_then(|a| {
            a.preferred_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .into_iter()
        .flatten()
        .map(|p| PreferredSchedulingTerm {
            weight: p.weight,
            term: convert_term(&p.preference),
        })
        .collect();
    Constraints {
        required,
        preferred,
        ..Constraints::default()
    }
}

/// Returns the terms of a selector, of which one must match. Never empty: a selector without terms
/// matches nothing, and neither does an empty term.
#[must_use]
pub(crate) fn convert_terms(selector: &core::NodeSelector) -> Vec<NodeSelectorTerm> {
    let terms: Vec<_> = selector
        .node_selector_terms
        .iter()
        .map(convert_term)
        .collect();
    if terms.is_empty() {
        vec![NodeSelectorTerm::default()]
    } else {
        terms
    }
}

fn convert_term(term: &core::NodeSelectorTerm) -> NodeSelectorTerm {
    let read = |list: &Option<Vec<core::NodeSelectorRequirement>>| {
        list.iter().flatten().map(convert_expression).collect()
    };
    NodeSelectorTerm {
        match_expressions: read(&term.match_expressions),
        match_fields: read(&term.match_fields),
    }
}

fn convert_expression(e: &core::NodeSelectorRequirement) -> NodeSelectorRequirement {
    let operator = match e.operator.as_str() {
        "NotIn" => NodeSelectorOperator::NotIn,
        "Exists" => NodeSelectorOperator::Exists,
        "DoesNotExist" => NodeSelectorOperator::DoesNotExist,
        "Gt" => NodeSelectorOperator::Gt,
        "Lt" => NodeSelectorOperator::Lt,
        // An unknown operator was rejected before; `In` without values matches nothing.
        _ => NodeSelectorOperator::In,
    };
    NodeSelectorRequirement {
        key: e.key.clone(),
        operator,
        values: e.values.clone().unwrap_or_default(),
    }
}

/// Returns the effect of a taint. None if it is unknown.
#[must_use]
pub(crate) fn parse_effect(word: &str) -> Option<TaintEffect> {
    match word {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

/// Returns the tolerations of a pod that matter to the choice of nodes.
fn convert_tolerations<'a>(all: impl IntoIterator<Item = &'a core::Toleration>) -> Vec<Toleration> {
    let relevant = all.into_iter().filter(|t| !is_default_toleration(t));
    relevant.filter_map(convert_toleration).collect()
}

/// Returns a toleration in the engine's form. None if it tolerates nothing, because its operator or
/// effect is unknown (Lt and Gt of `TaintTolerationComparisonOperators` are off by default up to
/// 1.37).
#[must_use]
pub(crate) fn convert_toleration(t: &core::Toleration) -> Option<Toleration> {
    let operator = match t.operator.as_deref().unwrap_or_default() {
        "Exists" => TolerationOperator::Exists,
        "" | "Equal" => TolerationOperator::Equal,
        _ => return None,
    };
    let word = t.effect.as_deref().filter(|word| !word.is_empty());
    let effect = match word {
        Some(word) => Some(parse_effect(word)?),
        None => None,
    };
    Some(Toleration {
        key: t.key.clone().filter(|k| !k.is_empty()),
        operator,
        value: t.value.clone().unwrap_or_default(),
        effect,
    })
}

/// Returns true for a toleration that `DefaultTolerationSeconds` adds to every pod (see
/// kubernetes/plugin/pkg/admission/defaulttolerationseconds). It lets a pod stay for a while on a
/// failed node. It does not matter to placement, because no pod is placed on a node that is not
/// ready.
fn is_default_toleration(t: &core::Toleration) -> bool {
    let of_node = matches!(
        t.key.as_deref(),
        Some("node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable")
    );
    of_node && t.operator.as_deref() == Some("Exists") && t.effect.as_deref() == Some("NoExecute")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn constraints_from(spec: Value) -> Constraints {
        let mut spec = spec;
        spec["containers"] = json!([]);
        from_pod(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn toleration_with_unknown_operator_or_effect_is_dropped() {
        for (toleration, is_kept) in [
            (json!({"key": "a", "operator": "Exists"}), true),
            (json!({"key": "a", "value": "b"}), true),
            (json!({"key": "a", "operator": "Equal", "effect": ""}), true),
            (json!({"key": "a", "operator": "Lt", "value": "5"}), false),
            (
                json!({"key": "a", "operator": "Exists", "effect": "NoNothing"}),
                false,
            ),
        ] {
            let tolerations = constraints_from(json!({"tolerations": [toleration]})).tolerations;
            assert_eq!(!tolerations.is_empty(), is_kept, "{toleration}");
        }
    }

    #[test]
    fn selector_without_terms_matches_no_node() {
        let required = |terms: Value| {
            constraints_from(json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            }}}))
            .required
        };
        assert_eq!(required(json!([])), [NodeSelectorTerm::default()]);
        let term =
            json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]});
        assert_eq!(required(json!([term])).len(), 1);
        assert_eq!(constraints_from(json!({})).required, []);
    }
}
