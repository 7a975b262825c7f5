//! Pods that come once their gang has its place.

use std::time::Duration;

use trellis_gang::engine;

use super::*;

fn member_pod(name: &str) -> SlimPod {
    pod(name, json!({"trellis.dev/pod-group": "g"}))
}

/// Returns a pod of one GPU.
fn one_gpu_pod(name: &str) -> SlimPod {
    decoded(json!({
        "metadata": {"name": name, "namespace": "team-a", "uid": name,
            "labels": {"trellis.dev/pod-group": "g"}},
        "spec": {"schedulerName": "trellis", "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}]},
        "status": {"phase": "Pending"},
    }))
}

/// A limit of jobs counts the gang once, and a limit of one job counts all of its pods.
#[tokio::test]
async fn joining_pod_counts_in_the_job_limits_of_its_gang() {
    let mut scene = ExternalPodsFixture::new();
    scene.add_placed_group(json!({}));
    scene.see_bound(member_pod("a"), &[]);
    scene.limit(json!({"runningJobs": 1, "queuedJobs": 0}));
    scene.decide();
    scene.add_pod(member_pod("b"));
    scene.decide();
    assert_eq!(
        scene.used_gpus(),
        (8, 0),
        "{}",
        scene.written_reason(&external::pod_gang_key(&key("b")))
    );

    let mut scene = ExternalPodsFixture::new();
    scene.add_placed_group(json!({}));
    scene.see_bound(member_pod("a"), &[]);
    scene.limit(json!({"gpusPerJob": 6}));
    scene.decide();
    scene.add_pod(member_pod("b"));
    scene.decide();
    assert_eq!(scene.used_gpus(), (4, 0), "8 of 6");
    let told = scene.written_reason(&external::pod_gang_key(&key("b")));
    assert_eq!(told, "QuotaPolicyExceeded: ");
}

/// GPU-hours count GPUs, regardless of the pod's controller.
#[tokio::test]
async fn external_pods_draw_gpu_hours() {
    let mut scene = ExternalPodsFixture::new();
    scene.limit(json!({"gpuHours": {"limit": 10, "windowHours": 720}}));
    scene.add_placed_group(json!({}));
    scene.see_bound(member_pod("a"), &[]);
    scene.add_pod(pod("alone", json!({})));
    scene.decide();
    let drawn: Vec<i128> = scene
        .driver
        .engine
        .limit_usage()
        .map(|(_, gpus)| gpus)
        .collect();
    assert_eq!(drawn, [8]);
}

/// The gang's place keeps its queue and priority, even if the PodGroup has changed.
#[tokio::test]
async fn joining_pod_takes_queue_and_priority_from_the_plan() {
    let mut scene = ExternalPodsFixture::new();
    let elsewhere: TrainingQueue = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "elsewhere"},
        "spec": {"namespaceSelector": {}},
    }));
    scene.sink.apply(Key::new("", "elsewhere"), elsewhere);
    scene.add_placed_group(json!({"queue": "elsewhere", "priority": 7}));
    scene.see_bound(member_pod("a"), &[("trellis.dev/placed-in", "elsewhere")]);
    scene.decide();
    scene.add_pod(member_pod("b"));
    scene.decide();
    let unit = external::pod_gang_key(&key("b"));
    assert_eq!(scene.engine_state(&unit), EngineState::Placed);
    let asks = scene.driver.external_pods.gangs[&unit]
        .request
        .clone()
        .unwrap();
    assert_eq!((&*asks.queue, asks.priority), ("elsewhere", 7));
}

/// The gang's nodes may have a taint that only the flavor tolerates.
#[tokio::test]
async fn joining_pod_tolerates_the_taints_of_the_gangs_flavor() {
    let mut scene = ExternalPodsFixture::new();
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
    let queue: TrainingQueue = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "default"},
        "spec": {"namespaceSelector": {}, "defaultFor": {}, "resourceGroups": [
            {"coveredResources": [GPU], "flavors": [
                {"name": "spot", "resources": [{"name": GPU, "nominalQuota": "8"}]}]}]},
    }));
    scene.sink.apply(Key::new("", "n0"), node);
    scene.sink.apply(Key::new("", "spot"), flavor);
    scene.sink.apply(Key::new("", "default"), queue);
    scene.add_placed_group(json!({}));
    let spot = [("trellis.dev/flavors", r#"{"nvidia.com/gpu":"spot"}"#)];
    scene.see_bound(member_pod("a"), &spot);
    scene.decide();
    scene.add_pod(member_pod("b"));
    scene.decide();
    assert_eq!(
        scene.engine_state(&external::pod_gang_key(&key("b"))),
        EngineState::Placed
    );
    assert_eq!(scene.used_gpus(), (8, 0));
}

/// The pods record their flavors. The next leader charges these flavors, and not the first ones
/// that match the nodes.
#[tokio::test]
async fn bound_pods_are_charged_to_the_flavors_in_their_annotations() {
    let mut scene = ExternalPodsFixture::new();
    let quota =
        |name: &str| json!({"name": name, "resources": [{"name": GPU, "nominalQuota": "8"}]});
    let queue: TrainingQueue = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "default"},
        "spec": {"namespaceSelector": {}, "defaultFor": {}, "resourceGroups": [
            {"coveredResources": [GPU], "flavors": [quota("first"), quota("second")]}]},
    }));
    for name in ["first", "second"] {
        let flavor: trellis_api::ResourceFlavor = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "ResourceFlavor",
            "metadata": {"name": name}, "spec": {},
        }));
        scene.sink.apply(Key::new("", name), flavor);
    }
    scene.sink.apply(Key::new("", "default"), queue);
    scene.add_placed_group(json!({}));
    let second = [("trellis.dev/flavors", r#"{"nvidia.com/gpu":"second"}"#)];
    scene.see_bound(member_pod("a"), &second);
    scene.see_bound(pod("alone", json!({})), &second);
    scene.decide();
    for unit in [
        external::pod_group_gang_key(&key("g")),
        external::pod_gang_key(&key("alone")),
    ] {
        let given = scene
            .driver
            .engine
            .flavors(&engine::gang_id(&unit))
            .unwrap();
        let flavor = given[0].flavors.get(&ResourceName::new(GPU)).unwrap();
        assert_eq!(flavor.as_str(), "second", "{unit}");
    }
}

/// The engine learns of a whole gang at most every two seconds, however many pods come one by one.
#[tokio::test(start_paused = true)]
async fn joined_pods_are_merged_into_the_gang_together() {
    let mut scene = ExternalPodsFixture::new();
    let unit = external::pod_group_gang_key(&key("g"));
    scene.add_placed_group(json!({}));
    scene.see_bound(one_gpu_pod("a"), &[]);
    scene.decide();
    let held =
        |scene: &ExternalPodsFixture| scene.driver.external_pods.gangs[&unit].allocations.len();
    let alone = |name: &str| external::pod_gang_key(&key(name));
    for (name, expected) in [("b", 2), ("c", 2), ("d", 2)] {
        scene.add_pod(one_gpu_pod(name));
        scene.decide();
        assert_eq!(scene.engine_state(&alone(name)), EngineState::Placed);
        // The pod's task would have bound it.
        scene.see_bound(one_gpu_pod(name), &[]);
        let context = scene.driver.committer.context().clone();
        context.send_event(SchedulerEvent::TaskEnded(alone(name), TaskOutcome::Done));
        scene.decide();
        scene.decide();
        assert_eq!(held(&scene), expected, "{name}");
    }
    assert_eq!(scene.used_gpus(), (4, 0));
    assert_eq!(scene.engine_state(&alone("d")), EngineState::Placed);
    tokio::time::advance(Duration::from_secs(2)).await;
    scene.recheck(&unit);
    assert_eq!((held(&scene), scene.used_gpus()), (4, (4, 0)));
    assert!(!scene.driver.external_pods.gangs.contains_key(&alone("d")));
}

/// Pods that come while the pods of the last place stop form the next gang.
#[tokio::test]
async fn pod_does_not_join_a_terminating_gang() {
    let mut scene = ExternalPodsFixture::new();
    scene.add_placed_group(json!({}));
    scene.see_bound(member_pod("a"), &[]);
    scene.decide();
    let big = |name: &str| {
        let mut pod = member_pod(name);
        pod.metadata.uid = Some(format!("{name}-2"));
        pod
    };
    // An earlier pod waits for room.
    scene.add_pod(pod("else", json!({})));
    scene.decide();
    scene.add_pod(big("b"));
    scene.decide();
    let unit = external::pod_gang_key(&key("b"));
    assert_eq!(scene.engine_state(&unit), EngineState::Waiting);
    let mut stops = member_pod("a");
    stops.metadata.deletion_timestamp = Some(decoded(json!("2027-01-15T08:00:00Z")));
    scene.see_bound(stops, &[]);
    scene.add_pod(big("c"));
    scene.decide();
    for name in ["b", "c"] {
        let unit = external::pod_gang_key(&key(name));
        assert_eq!(scene.engine_state(&unit), EngineState::Absent, "{name}");
    }
}

/// Each pod alone would be within the limit.
#[tokio::test]
async fn job_limit_covers_all_joining_pods_together() {
    let mut scene = ExternalPodsFixture::new();
    scene.add_placed_group(json!({}));
    scene.see_bound(one_gpu_pod("a"), &[]);
    scene.limit(json!({"gpusPerJob": 3}));
    scene.decide();
    for name in ["b", "c", "d"] {
        scene.add_pod(one_gpu_pod(name));
    }
    scene.decide();
    scene.decide();
    assert_eq!(scene.used_gpus(), (3, 0), "4 of 3");
    let refused = ["b", "c", "d"].map(|name| external::pod_gang_key(&key(name)));
    let mut refused = refused
        .iter()
        .filter(|unit| scene.engine_state(unit) == EngineState::Absent);
    let last = refused.next().unwrap().clone();
    assert!(refused.next().is_none());
    assert_eq!(scene.written_reason(&last), "QuotaPolicyExceeded: ");
    // A stopping pod does not count, so the scheduler looks again at a refused pod, which is often
    // its successor.
    let mut stops = one_gpu_pod("a");
    stops.metadata.deletion_timestamp = Some(decoded(json!("2027-01-15T08:00:00Z")));
    let joined = ["b", "c", "d"].into_iter();
    for name in joined.filter(|name| external::pod_gang_key(&key(name)) != last) {
        scene.see_bound(one_gpu_pod(name), &[]);
        let context = scene.driver.committer.context().clone();
        context.send_event(SchedulerEvent::TaskEnded(
            external::pod_gang_key(&key(name)),
            TaskOutcome::Done,
        ));
    }
    scene.decide();
    scene.see_bound(stops, &[]);
    scene.decide();
    assert_eq!(scene.engine_state(&last), EngineState::Placed);
}

/// If the pod counted as older than its gang, it could preempt the gang in a queue where later
/// gangs leave first.
#[tokio::test]
async fn joining_pod_is_submitted_no_earlier_than_its_gang_was_placed() {
    let mut scene = ExternalPodsFixture::new();
    scene.add_placed_group(json!({"deadline": "2027-01-15T08:02:00Z"}));
    let of = |name: &str, created: &str| {
        let mut pod = one_gpu_pod(name);
        pod.metadata.creation_timestamp = Some(decoded(json!(created)));
        pod
    };
    scene.see_bound(of("a", "2027-01-15T07:59:00Z"), &[]);
    scene.decide();
    scene.add_pod(of("b", "2027-01-15T07:00:00Z"));
    scene.decide();
    let asks = scene.driver.external_pods.gangs[&external::pod_gang_key(&key("b"))]
        .request
        .clone();
    let placed: k8s_openapi::jiff::Timestamp = "2027-01-15T08:00:00Z".parse().unwrap();
    assert_eq!(asks.unwrap().submitted, placed);
}

/// Users can change the label. Only the annotation from the binding shows the pod's gang.
#[tokio::test]
async fn changed_label_does_not_add_a_bound_pod_to_a_gang() {
    let mut scene = ExternalPodsFixture::new();
    scene.add_placed_group(json!({"priority": 9}));
    scene.see_bound(member_pod("a"), &[]);
    scene.decide();
    scene.see_bound(member_pod("stray"), &[("trellis.dev/placed-with", "other")]);
    scene.decide();
    assert_eq!(
        scene.engine_state(&external::pod_gang_key(&key("stray"))),
        EngineState::Placed
    );
    let gang = &scene.driver.external_pods.gangs[&external::pod_group_gang_key(&key("g"))];
    assert_eq!(gang.allocations.len(), 1);
    assert_eq!(scene.used_gpus(), (8, 0));
}

/// A user has put the pod on a node and named a group. It is no gang to join.
#[tokio::test]
async fn pod_does_not_join_a_gang_without_a_place() {
    let mut scene = ExternalPodsFixture::new();
    scene.add_placed_group(json!({"queue": null}));
    let mut theirs = member_pod("a");
    theirs.spec.node_name = Some("n0".to_owned());
    scene.add_pod(theirs);
    scene.limit(json!({"gpusPerJob": 3}));
    scene.decide();
    scene.add_pod(member_pod("b"));
    scene.decide();
    let unit = external::pod_gang_key(&key("b"));
    assert_eq!(scene.written_reason(&unit), "QuotaPolicyExceeded: ");
    scene.limit(json!({"runningJobs": 1}));
    scene.recheck(&unit);
    let state = &scene.driver.external_pods.gangs[&unit];
    assert_eq!(
        (state.engine_state, state.joins_placed_gang),
        (EngineState::Placed, false)
    );
}

/// The pod makes room for a preemptor, which must not ask the whole gang to leave instead.
#[tokio::test(start_paused = true)]
async fn terminating_pod_is_not_merged_into_its_gang() {
    let mut scene = ExternalPodsFixture::new();
    scene.add_placed_group(json!({}));
    scene.see_bound(one_gpu_pod("a"), &[]);
    scene.decide();
    let alone = external::pod_gang_key(&key("b"));
    scene.add_pod(one_gpu_pod("b"));
    scene.decide();
    let mut stops = one_gpu_pod("b");
    stops.metadata.deletion_timestamp = Some(decoded(json!("2027-01-15T08:00:00Z")));
    scene.see_bound(stops, &[]);
    let context = scene.driver.committer.context().clone();
    context.send_event(SchedulerEvent::TaskEnded(alone.clone(), TaskOutcome::Done));
    scene.decide();
    tokio::time::advance(Duration::from_secs(5)).await;
    scene.recheck(&external::pod_group_gang_key(&key("g")));
    assert_eq!(scene.engine_state(&alone), EngineState::Placed);
    let gang = &scene.driver.external_pods.gangs[&external::pod_group_gang_key(&key("g"))];
    assert_eq!(gang.allocations.len(), 1);
}

/// Rack `r1` of block `b1` differs from rack `r1` of block `b0`, in which the gang is.
#[tokio::test]
async fn joining_pod_is_placed_in_the_domain_of_its_gang() {
    let mut scene = ExternalPodsFixture::new();
    for (name, block, gpus) in [("n0", "b0", "4"), ("n1", "b1", "4"), ("n2", "b0", "8")] {
        let node: SlimNode = decoded(json!({
            "metadata": {"name": name, "uid": name, "labels": {"block": block, "rack": "r1"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "96", "memory": "1Ti", GPU: gpus, "pods": "110"}},
        }));
        scene.sink.apply(Key::new("", name), node);
    }
    let topology: trellis_api::Topology = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "hall"},
        "spec": {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]},
    }));
    scene.sink.apply(Key::new("", "hall"), topology);
    scene.add_placed_group(json!({}));
    let group = scene.driver.committer.cache().pod_groups.get(&key("g"));
    let mut group = (*group.unwrap()).clone();
    group.spec.topology = Some(decoded(json!({"required": "rack"})));
    group.metadata.resource_version = Some("2".to_owned());
    scene.sink.apply(key("g"), group);
    scene.see_bound(member_pod("a"), &[]);
    scene.decide();
    scene.add_pod(member_pod("b"));
    scene.decide();
    let unit = external::pod_gang_key(&key("b"));
    let placement = scene
        .driver
        .engine
        .placement(&engine::gang_id(&unit))
        .unwrap();
    let nodes: Vec<_> = placement.iter().map(|(_, _, node)| node.as_str()).collect();
    assert_eq!(nodes, ["n2"]);
    // The pod's own selector keeps it out of its gang's domain. It waits, and is not bound to a
    // node that its selector forbids.
    scene.add_pod(decoded(json!({
        "metadata": {"name": "c", "namespace": "team-a", "uid": "c",
            "labels": {"trellis.dev/pod-group": "g"}},
        "spec": {"schedulerName": "trellis", "nodeSelector": {"block": "b1"},
            "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {GPU: "4"}, "limits": {GPU: "4"}}}]},
        "status": {"phase": "Pending"},
    })));
    scene.decide();
    let unit = external::pod_gang_key(&key("c"));
    assert!(
        scene
            .driver
            .engine
            .placement(&engine::gang_id(&unit))
            .is_none()
    );
    assert_eq!(scene.engine_state(&unit), EngineState::Waiting);
}

/// The gang must be in one domain, but the domain is unknown.
#[tokio::test]
async fn pod_does_not_join_a_gang_with_an_unknown_domain() {
    let mut scene = ExternalPodsFixture::new();
    let context = scene.driver.committer.context().clone();
    scene.add_placed_group(json!({}));
    let group = context.cache.pod_groups.get(&key("g")).unwrap();
    let mut group = (*group).clone();
    group.spec.topology = Some(decoded(json!({"required": "example.com/rack"})));
    group.metadata.resource_version = Some("2".to_owned());
    scene.sink.apply(key("g"), group);
    scene.see_bound(one_gpu_pod("a"), &[]);
    scene.decide();
    scene.add_pod(one_gpu_pod("b"));
    scene.decide();
    let unit = external::pod_gang_key(&key("b"));
    assert_eq!(scene.engine_state(&unit), EngineState::Absent);
    assert_eq!(scene.written_reason(&unit), "TopologyNotFound: ");
}
