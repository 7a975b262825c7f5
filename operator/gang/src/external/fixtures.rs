//! External pods for tests.

use serde_json::{Value, json};

use crate::observed::{ExternalPod, SlimPod};

/// Returns a pending pod. `fields` holds more of its fields, by JSON pointer.
pub(crate) fn pod(name: &str, fields: Value) -> ExternalPod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": {}},
        "spec": {"schedulerName": "trellis", "containers": [{"name": "c"}]},
        "status": {"phase": "Pending"},
    });
    for (path, value) in fields.as_object().unwrap() {
        let (parent, field) = path.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    let pod: SlimPod = serde_json::from_value(pod).unwrap();
    ExternalPod::from_pod(&pod).unwrap()
}

/// Returns the fields of a pod that plan `p` has bound to this node.
pub(crate) fn bound_on(node: &str) -> Value {
    bound_by_plan(node, "p", "q")
}

/// Returns the fields of a pod that this plan has bound to this node.
pub(crate) fn bound_by_plan(node: &str, plan: &str, queue: &str) -> Value {
    let annotations = json!({"trellis.dev/plan": plan, "trellis.dev/placed-in": queue});
    json!({"/spec/nodeName": node, "/metadata/annotations": annotations})
}
