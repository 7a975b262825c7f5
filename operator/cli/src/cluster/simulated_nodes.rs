//! Detects simulated nodes.
//! The tool kwok plays their kubelets, and no container runs on them.

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};

/// The annotation that marks simulated nodes in kwok's documentation.
const ANNOTATION: &str = "kwok.x-k8s.io/node";
/// Prefix of the container runtime version of such a node.
/// If the node has no version, kwok sets it.
const RUNTIME: &str = "kwok";

/// Returns true if this node is simulated.
/// Returns false also if the user may not read nodes.
pub async fn is_simulated(client: &Client, node: &str) -> bool {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get_opt(node).await;
    node.is_ok_and(|node| node.as_ref().is_some_and(is_kwok_node))
}

/// Returns true if the node has the annotation or the container runtime of kwok.
fn is_kwok_node(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    let info = node.status.as_ref().and_then(|s| s.node_info.as_ref());
    annotations.is_some_and(|annotations| annotations.contains_key(ANNOTATION))
        || info.is_some_and(|info| info.container_runtime_version.starts_with(RUNTIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(annotations: Value, runtime: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "gpu-1", "annotations": annotations},
            "status": {"nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": runtime,
                "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "v1.37.1",
                "machineID": "", "operatingSystem": "linux", "osImage": "", "systemUUID": "",
            }},
        }))
        .unwrap()
    }

    #[test]
    fn node_is_simulated_by_its_annotation_or_its_runtime() {
        let fake = json!({"kwok.x-k8s.io/node": "fake"});
        assert!(is_kwok_node(&node(fake, "")));
        assert!(is_kwok_node(&node(json!({}), "kwok-v0.8.0")));
        assert!(is_kwok_node(&node(json!(null), "kwok://0.8.0")));
        assert!(!is_kwok_node(&node(json!({}), "containerd://2.1.4")));
        assert!(!is_kwok_node(&Node::default()));
    }
}
