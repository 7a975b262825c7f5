//! Converts nodes into the engine's form.

use trellis_scheduler::{Node, NodeName, Taint, TaintEffect};

use crate::observed::{SlimNode, UnhealthyRules};
use crate::requirements::constraints;
use crate::requirements::resource_request;

/// Returns the engine's form of a node, with all its allocatable resources.
#[must_use]
pub fn to_engine_node(node: &SlimNode, unhealthy: &UnhealthyRules) -> Node {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    Node {
        labels: node.metadata.labels.clone().unwrap_or_default(),
        taints: node
            .spec
            .taints
            .iter()
            .map(|t| Taint {
                key: t.key.clone(),
                value: t.value.clone().unwrap_or_default(),
                // A taint with an unknown effect keeps pods away.
                effect: constraints::parse_effect(&t.effect).unwrap_or(TaintEffect::NoSchedule),
            })
            .collect(),
        ready: node.is_ready(),
        unschedulable: node.spec.unschedulable,
        unhealthy: unhealthy.unhealthy_reason(node),
        ..Node::new(
            NodeName::new(name),
            resource_request::node_allocatable(node),
        )
    }
}
