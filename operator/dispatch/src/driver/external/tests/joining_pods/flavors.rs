//! Flavors of pods that join a gang.

use trellis_gang::engine;

use super::*;

/// The gang's nodes may have a taint that only the flavor tolerates.
#[tokio::test]
async fn joining_pod_tolerates_the_taints_of_the_gangs_flavor() {
    let mut fixture = ExternalPodsFixture::new();
    let taint = json!({"key": "spot", "effect": "NoSchedule"});
    let node: SlimNode = decoded(json!({
        "metadata": {"name": "n0", "uid": "n0"}, "spec": {"taints": [taint]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}},
    }));
    let flavor: trellis_api::ResourceFlavor = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ResourceFlavor",
        "metadata": {"name": "spot"}, "spec": {"nodeTaints": [taint],
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]},
    }));
    let quota = json!({"name": "spot", "resources": [{"name": GPU, "nominalQuota": "8"}]});
    let queue = json!({"namespaceSelector": {}, "defaultFor": {}, "resourceGroups": [
        {"coveredResources": [GPU], "flavors": [quota]}]});
    fixture.sink.apply(Key::new("", "n0"), node);
    fixture.sink.apply(Key::new("", "spot"), flavor);
    fixture.queue("default", queue);
    fixture.add_placed_group(json!({}));
    let spot = [("trellis.dev/flavors", r#"{"nvidia.com/gpu":"spot"}"#)];
    fixture.see_bound(member_pod("a"), &spot);
    fixture.decide();
    fixture.add_pod(member_pod("b"));
    fixture.decide();
    assert_eq!(
        fixture.engine_state(&external::pod_gang_key(&key("b"))),
        EngineState::Placed
    );
    assert_eq!(fixture.used_gpus(), (8, 0));
}

/// The annotations of a pod name its flavors. The next leader charges these flavors, and not the
/// first flavors that match the node.
#[tokio::test]
async fn bound_pods_are_charged_to_the_flavors_in_their_annotations() {
    let mut fixture = ExternalPodsFixture::new();
    let quota =
        |name: &str| json!({"name": name, "resources": [{"name": GPU, "nominalQuota": "8"}]});
    let queue = json!({"namespaceSelector": {}, "defaultFor": {}, "resourceGroups": [
        {"coveredResources": [GPU], "flavors": [quota("first"), quota("second")]}]});
    for name in ["first", "second"] {
        let flavor: trellis_api::ResourceFlavor = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "ResourceFlavor",
            "metadata": {"name": name}, "spec": {},
        }));
        fixture.sink.apply(Key::new("", name), flavor);
    }
    fixture.queue("default", queue);
    fixture.add_placed_group(json!({}));
    let second = [("trellis.dev/flavors", r#"{"nvidia.com/gpu":"second"}"#)];
    fixture.see_bound(member_pod("a"), &second);
    fixture.see_bound(pod("alone", json!({})), &second);
    fixture.decide();
    for unit in [
        external::pod_group_gang_key(&key("g")),
        external::pod_gang_key(&key("alone")),
    ] {
        let flavors = fixture
            .driver
            .engine
            .flavors(&engine::gang_id(&unit))
            .unwrap();
        let flavor = flavors[0].flavors.get(&ResourceName::new(GPU)).unwrap();
        assert_eq!(flavor.as_str(), "second", "{unit}");
    }
}
