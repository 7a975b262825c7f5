//! Resources that nodes reserve for DaemonSet pods that are still missing.

use super::*;

/// Returns the cores that a node offers to the engine.
fn cores(case: &ContextFixture, node: &str) -> i64 {
    let node = case.context.cache.engine_node(node).unwrap();
    node.allocatable
        .get(&trellis_scheduler::ResourceName::new("cpu"))
        / 1000
}

#[tokio::test(start_paused = true)]
async fn own_node_reserves_resources_until_the_daemon_set_pod_exists() {
    let mut case = ContextFixture::new();
    let node = |name: &str, is_dedicated: &str| -> SlimNode {
        decoded(json!({
            "metadata": {"name": name, "uid": name, "labels": {names::DEDICATED_NODE: is_dedicated}},
            "spec": {"taints": [{"key": names::DEDICATED_NODE, "value": "true", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "96", "pods": "110"}},
        }))
    };
    case.sink.apply(Key::new("", "own"), node("own", "true"));
    case.sink
        .apply(Key::new("", "shared"), node("shared", "false"));
    let set: SlimDaemonSet = decoded(json!({
        "metadata": {"name": "d", "namespace": "kube-system", "uid": "d", "generation": 1},
        "spec": {"template": {"spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
            "tolerations": [{"operator": "Exists"}],
        }}},
    }));
    let key = Key::from_meta(&set.metadata);
    let take_events = async |case: &mut ContextFixture| {
        let mut nodes = Vec::new();
        for event in case.events.take_all() {
            match event {
                SchedulerEvent::Node(name) => nodes.push(name.to_string()),
                SchedulerEvent::Pod { .. } => nodes.push("pod".to_owned()),
                SchedulerEvent::PodGone(_) => nodes.push("gone".to_owned()),
                _ => {}
            }
        }
        nodes
    };
    take_events(&mut case).await;
    assert_eq!((cores(&case, "own"), cores(&case, "shared")), (96, 96));
    case.sink.apply(key.clone(), set.clone());
    assert_eq!((cores(&case, "own"), cores(&case, "shared")), (94, 96));
    assert_eq!(take_events(&mut case).await, ["own"]);
    case.sink.apply(key.clone(), set);
    assert!(
        take_events(&mut case).await.is_empty(),
        "only the status has changed"
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
    case.sink.apply(name.clone(), pod("Running"));
    assert_eq!(cores(&case, "own"), 96);
    assert_eq!(take_events(&mut case).await, ["pod", "own"]);
    case.sink.apply(name.clone(), pod("Failed"));
    assert_eq!(cores(&case, "own"), 94);
    assert_eq!(take_events(&mut case).await, ["own", "gone"]);
    case.sink.apply(name.clone(), pod("Running"));
    take_events(&mut case).await;
    Sink::<SlimPod>::delete(case.sink.as_ref(), &name, "p");
    assert_eq!(take_events(&mut case).await, ["own", "gone"]);
    Sink::<SlimDaemonSet>::delete(case.sink.as_ref(), &key, "d");
    assert_eq!(cores(&case, "own"), 96);
}
