//! Converts nodes into the engine's form.

use k8s_openapi::api::core::v1 as core;
use trellis_scheduler::{Node, NodeName, Taint, TaintEffect, Toleration, TolerationOperator};

use crate::node_order::cluster_autoscaler::GKE_NODE_LABEL;
use crate::observed::{SlimNode, UnhealthyRules};
use crate::requirements::constraints;
use crate::requirements::resource_request;

/// Returns the engine's form of a node, with all its allocatable resources. A node that GKE has
/// added for one ProvisioningRequest has a taint that only the job of that request tolerates
/// ([`super::AttemptState::exclusive_node_values`]).
#[must_use]
pub fn to_engine_node(node: &SlimNode, unhealthy: &UnhealthyRules) -> Node {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let own = labels.get(GKE_NODE_LABEL).map(|value| Taint {
        key: GKE_NODE_LABEL.to_owned(),
        value: value.clone(),
        effect: TaintEffect::NoSchedule,
    });
    Node {
        taints: node
            .spec
            .taints
            .iter()
            .map(convert_taint)
            .chain(own)
            .collect(),
        labels,
        ready: node.is_ready(),
        unschedulable: node.spec.unschedulable,
        unhealthy: unhealthy.unhealthy_reason(node),
        ..Node::new(
            NodeName::new(name),
            resource_request::node_allocatable(node),
        )
    }
}

/// Returns the engine's form of a taint. A taint with an unknown effect keeps pods away.
pub(crate) fn convert_taint(taint: &core::Taint) -> Taint {
    Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: constraints::parse_effect(&taint.effect).unwrap_or(TaintEffect::NoSchedule),
    }
}

/// Returns the toleration of a job whose ProvisioningRequest has brought the nodes with this label
/// value.
pub(super) fn own_node_toleration(value: &str) -> Toleration {
    Toleration {
        key: Some(GKE_NODE_LABEL.to_owned()),
        operator: TolerationOperator::Equal,
        value: value.to_owned(),
        effect: Some(TaintEffect::NoSchedule),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn node_of_a_request_is_kept_for_the_jobs_of_that_request() {
        let node = json!({
            "metadata": {"name": "n", "labels": {GKE_NODE_LABEL: "resize-1"}},
            "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        });
        let node: SlimNode = serde_json::from_value(node).unwrap();
        let node = to_engine_node(&node, &UnhealthyRules::default());
        let taints: Vec<_> = node.taints.iter().map(|taint| taint.key.as_str()).collect();
        assert_eq!(taints, ["gpu", GKE_NODE_LABEL]);
        let own = own_node_toleration("resize-1");
        let taint = &node.taints[1];
        assert_eq!(
            (own.key.as_ref(), &own.value),
            (Some(&taint.key), &taint.value)
        );
        assert_eq!(own.effect, Some(taint.effect));
    }
}
