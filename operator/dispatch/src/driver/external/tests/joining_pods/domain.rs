//! The topology domain of pods that join a gang.

use trellis_gang::engine;

use super::*;

/// The gang is in rack `r1` of block `b0`. Rack `r1` of block `b1` is another domain.
#[tokio::test]
async fn joining_pod_is_placed_in_the_domain_of_its_gang() {
    let mut fixture = ExternalPodsFixture::new();
    for (name, block, gpus) in [("n0", "b0", "4"), ("n1", "b1", "4"), ("n2", "b0", "8")] {
        let node: SlimNode = decoded(json!({
            "metadata": {"name": name, "uid": name, "labels": {"block": block, "rack": "r1"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "96", "memory": "1Ti", GPU: gpus, "pods": "110"}},
        }));
        fixture.sink.apply(Key::new("", name), node);
    }
    let topology: trellis_api::Topology = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "hall"},
        "spec": {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]},
    }));
    fixture.sink.apply(Key::new("", "hall"), topology);
    fixture.add_placed_group(json!({}));
    let group = fixture.driver.committer.cache().pod_groups.get(&key("g"));
    let mut group = (*group.unwrap()).clone();
    group.spec.topology = Some(decoded(json!({"required": "rack"})));
    group.metadata.resource_version = Some("2".to_owned());
    fixture.sink.apply(key("g"), group);
    fixture.see_bound(member_pod("a"), &[]);
    fixture.decide();
    fixture.add_pod(member_pod("b"));
    fixture.decide();
    let unit = external::pod_gang_key(&key("b"));
    let placement = fixture
        .driver
        .engine
        .placement(&engine::gang_id(&unit))
        .unwrap();
    let nodes: Vec<_> = placement.iter().map(|(_, _, node)| node.as_str()).collect();
    assert_eq!(nodes, ["n2"]);
    // The node selector of the pod matches no node of the gang's domain, so the pod waits.
    fixture.add_pod(decoded(json!({
        "metadata": {"name": "c", "namespace": "team-a", "uid": "c",
            "labels": {"trellis.dev/pod-group": "g"}},
        "spec": {"schedulerName": "trellis", "nodeSelector": {"block": "b1"},
            "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {GPU: "4"}, "limits": {GPU: "4"}}}]},
        "status": {"phase": "Pending"},
    })));
    fixture.decide();
    let unit = external::pod_gang_key(&key("c"));
    assert!(
        fixture
            .driver
            .engine
            .placement(&engine::gang_id(&unit))
            .is_none()
    );
    assert_eq!(fixture.engine_state(&unit), EngineState::Waiting);
}

/// The gang requires one domain, but no Topology has that level.
#[tokio::test]
async fn pod_does_not_join_a_gang_with_an_unknown_domain() {
    let mut fixture = ExternalPodsFixture::new();
    let context = fixture.driver.committer.context().clone();
    fixture.add_placed_group(json!({}));
    let group = context.cache.pod_groups.get(&key("g")).unwrap();
    let mut group = (*group).clone();
    group.spec.topology = Some(decoded(json!({"required": "example.com/rack"})));
    group.metadata.resource_version = Some("2".to_owned());
    fixture.sink.apply(key("g"), group);
    fixture.see_bound(one_gpu_pod("a"), &[]);
    fixture.decide();
    fixture.add_pod(one_gpu_pod("b"));
    fixture.decide();
    let unit = external::pod_gang_key(&key("b"));
    assert_eq!(fixture.engine_state(&unit), EngineState::Absent);
    assert_eq!(fixture.written_reason(&unit), "TopologyNotFound: ");
}
