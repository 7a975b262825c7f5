//! Resources that nodes reserve for DaemonSet pods that are still missing.

use super::*;

/// Cores that a node offers to the engine.
fn cores(case: &Case, node: &str) -> i64 {
    let node = case.context.cache.engine_node(node).unwrap();
    node.allocatable
        .get(&trellis_scheduler::ResourceName::new("cpu"))
        / 1000
}

#[tokio::test(start_paused = true)]
async fn an_own_node_offers_less_until_the_daemon_sets_pod_is_there() {
    let mut case = Case::new();
    let node = |name: &str, own: &str| -> SlimNode {
        decoded(json!({
            "metadata": {"name": name, "uid": name, "labels": {names::OWN_NODE: own}},
            "spec": {"taints": [{"key": names::OWN_NODE, "value": "true", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "96", "pods": "110"}},
        }))
    };
    case.watched.apply(Key::new("", "own"), node("own", "true"));
    case.watched
        .apply(Key::new("", "shared"), node("shared", "false"));
    let set: SlimDaemonSet = decoded(json!({
        "metadata": {"name": "d", "namespace": "kube-system", "uid": "d", "generation": 1},
        "spec": {"template": {"spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
            "tolerations": [{"operator": "Exists"}],
        }}},
    }));
    let key = Key::of(&set.metadata);
    let told = async |case: &mut Case| {
        let mut nodes = Vec::new();
        for feed in case.heard.take() {
            match feed {
                Feed::Node(name) => nodes.push(name.to_string()),
                Feed::Pod { .. } => nodes.push("pod".to_owned()),
                Feed::PodGone(_) => nodes.push("gone".to_owned()),
                _ => {}
            }
        }
        nodes
    };
    told(&mut case).await;
    assert_eq!((cores(&case, "own"), cores(&case, "shared")), (96, 96));
    case.watched.apply(key.clone(), set.clone());
    assert_eq!((cores(&case, "own"), cores(&case, "shared")), (94, 96));
    assert_eq!(told(&mut case).await, ["own"]);
    case.watched.apply(key.clone(), set);
    assert!(
        told(&mut case).await.is_empty(),
        "its status alone has changed"
    );
    let pod = |phase: &str| -> SlimPod {
        decoded(json!({
            "metadata": {"name": "d-1", "namespace": "kube-system", "uid": "p", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true},
            ]},
            "spec": {"nodeName": "own"}, "status": {"phase": phase},
        }))
    };
    let name = Key::new("kube-system", "d-1");
    case.watched.apply(name.clone(), pod("Running"));
    assert_eq!(cores(&case, "own"), 96);
    assert_eq!(told(&mut case).await, ["pod", "own"]);
    case.watched.apply(name.clone(), pod("Failed"));
    assert_eq!(cores(&case, "own"), 94);
    assert_eq!(told(&mut case).await, ["own", "gone"]);
    case.watched.apply(name.clone(), pod("Running"));
    told(&mut case).await;
    Sink::<SlimPod>::delete(case.watched.as_ref(), &name, "p");
    assert_eq!(told(&mut case).await, ["own", "gone"]);
    Sink::<SlimDaemonSet>::delete(case.watched.as_ref(), &key, "d");
    assert_eq!(cores(&case, "own"), 96);
}
