//! PodTopologyLabels: a pod on a node gets the zone and the region of the node as labels (KEP 4742).

use serde_json::{Value, json};

use super::AdmissionRequest;
use crate::kind::KindRef;
use crate::object::{metadata_mut, text_at};

const NODES: KindRef = KindRef::new("", "nodes");
const LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Copies the labels of the node to a new pod that names it, or to a binding.
pub(super) fn copy_from_node(request: &AdmissionRequest<'_>, object: &mut Value) {
    let path: &[&str] = match request.subresource {
        "binding" => &["target", "name"],
        _ => &["spec", "nodeName"],
    };
    let Some(node) = request.get(&NODES, "", text_at(object, path)) else {
        return;
    };
    for label in LABELS {
        if let Some(value) = node["metadata"]["labels"].get(label) {
            let labels = metadata_mut(object)
                .entry("labels")
                .or_insert_with(|| json!({}));
            labels[label] = value.clone();
        }
    }
}
