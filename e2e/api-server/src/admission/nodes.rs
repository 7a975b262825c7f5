//! TaintNodesByCondition: a new node is not ready.

use serde_json::{Value, json};

use crate::object::fields_mut;

/// Taints a new node, until a controller sees that it is ready.
pub(super) fn add_not_ready_taint(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let taints = fields_mut(node, "spec")
        .entry("taints")
        .or_insert_with(|| json!([]));
    if let Some(taints) = taints.as_array_mut()
        && !taints.contains(&taint)
    {
        taints.push(taint);
    }
}
