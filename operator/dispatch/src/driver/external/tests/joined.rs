//! Pods that come once their gang has its place.

use std::time::Duration;

use trellis_gang::engine;

use super::*;

fn of_group(name: &str) -> SlimPod {
    pod(name, json!({"trellis.dev/pod-group": "g"}))
}

/// One GPU each.
fn small(name: &str) -> SlimPod {
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
async fn who_joins_is_no_job_of_its_own_and_part_of_one() {
    let mut scene = Scene::new();
    scene.placed(json!({}));
    scene.see_bound(of_group("a"), &[]);
    scene.limit(json!({"runningJobs": 1, "queuedJobs": 0}));
    scene.decide();
    scene.see(of_group("b"));
    scene.decide();
    assert_eq!(
        scene.used(),
        (8, 0),
        "{}",
        scene.told(&external::of_pod(&key("b")))
    );

    let mut scene = Scene::new();
    scene.placed(json!({}));
    scene.see_bound(of_group("a"), &[]);
    scene.limit(json!({"gpusPerJob": 6}));
    scene.decide();
    scene.see(of_group("b"));
    scene.decide();
    assert_eq!(scene.used(), (4, 0), "8 of 6");
    let told = scene.told(&external::of_pod(&key("b")));
    assert_eq!(told, "QuotaPolicyExceeded: ");
}

/// GPU-hours are of GPUs, whoever made the pod.
#[tokio::test]
async fn external_pods_draw_gpu_hours() {
    let mut scene = Scene::new();
    scene.limit(json!({"gpuHours": {"limit": 10, "windowHours": 720}}));
    scene.placed(json!({}));
    scene.see_bound(of_group("a"), &[]);
    scene.see(pod("alone", json!({})));
    scene.decide();
    let drawn: Vec<i128> = scene.driver.engine.limits().map(|(_, gpus)| gpus).collect();
    assert_eq!(drawn, [8]);
}

/// Its place is in that queue and has that priority, whatever the PodGroup names by now.
#[tokio::test]
async fn who_joins_does_so_where_the_gang_has_its_place() {
    let mut scene = Scene::new();
    let elsewhere: TrainingQueue = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "elsewhere"},
        "spec": {"namespaceSelector": {}},
    }));
    scene.watched.apply(Key::new("", "elsewhere"), elsewhere);
    scene.placed(json!({"queue": "elsewhere", "priority": 7}));
    scene.see_bound(of_group("a"), &[("trellis.dev/placed-in", "elsewhere")]);
    scene.decide();
    scene.see(of_group("b"));
    scene.decide();
    let unit = external::of_pod(&key("b"));
    assert_eq!(scene.inside(&unit), Inside::Placed);
    let asks = scene.driver.external_pods.gangs[&unit]
        .asks
        .clone()
        .unwrap();
    assert_eq!((&*asks.queue, asks.priority), ("elsewhere", 7));
}

/// Its nodes may bear a taint that the flavor alone tolerates.
#[tokio::test]
async fn who_joins_is_where_the_flavor_lets_it_be() {
    let mut scene = Scene::new();
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
    scene.watched.apply(Key::new("", "n0"), node);
    scene.watched.apply(Key::new("", "spot"), flavor);
    scene.watched.apply(Key::new("", "default"), queue);
    scene.placed(json!({}));
    let spot = [("trellis.dev/flavors", r#"{"nvidia.com/gpu":"spot"}"#)];
    scene.see_bound(of_group("a"), &spot);
    scene.decide();
    scene.see(of_group("b"));
    scene.decide();
    assert_eq!(scene.inside(&external::of_pod(&key("b"))), Inside::Placed);
    assert_eq!(scene.used(), (8, 0));
}

/// The flavors that were given stand on the pods: who leads next charges them to those, and not to
/// the first ones that their nodes are of.
#[tokio::test]
async fn what_is_held_is_charged_to_the_flavors_that_were_given() {
    let mut scene = Scene::new();
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
        scene.watched.apply(Key::new("", name), flavor);
    }
    scene.watched.apply(Key::new("", "default"), queue);
    scene.placed(json!({}));
    let second = [("trellis.dev/flavors", r#"{"nvidia.com/gpu":"second"}"#)];
    scene.see_bound(of_group("a"), &second);
    scene.see_bound(pod("alone", json!({})), &second);
    scene.decide();
    for unit in [
        external::of_group(&key("g")),
        external::of_pod(&key("alone")),
    ] {
        let given = scene.driver.engine.flavors(&engine::id(&unit)).unwrap();
        let flavor = given[0].flavors.get(&ResourceName::new(GPU)).unwrap();
        assert_eq!(flavor.as_str(), "second", "{unit}");
    }
}

/// The engine learns of a whole gang at most every two seconds, however many pods come one by one.
#[tokio::test(start_paused = true)]
async fn those_that_come_one_by_one_become_the_gangs_together() {
    let mut scene = Scene::new();
    let unit = external::of_group(&key("g"));
    scene.placed(json!({}));
    scene.see_bound(small("a"), &[]);
    scene.decide();
    let held = |scene: &Scene| scene.driver.external_pods.gangs[&unit].held.len();
    let alone = |name: &str| external::of_pod(&key(name));
    for (name, expected) in [("b", 2), ("c", 2), ("d", 2)] {
        scene.see(small(name));
        scene.decide();
        assert_eq!(scene.inside(&alone(name)), Inside::Placed);
        // Its task would have bound it.
        scene.see_bound(small(name), &[]);
        let context = scene.driver.committer.context().clone();
        context.tell(Feed::Ended(alone(name), Outcome::Done));
        scene.decide();
        scene.decide();
        assert_eq!(held(&scene), expected, "{name}");
    }
    assert_eq!(scene.used(), (4, 0));
    assert_eq!(scene.inside(&alone("d")), Inside::Placed);
    tokio::time::advance(Duration::from_secs(2)).await;
    scene.look(&unit);
    assert_eq!((held(&scene), scene.used()), (4, (4, 0)));
    assert!(!scene.driver.external_pods.gangs.contains_key(&alone("d")));
}

/// Pods that have come while those of the last place stop are the next gang.
#[tokio::test]
async fn nobody_joins_a_gang_that_only_stops() {
    let mut scene = Scene::new();
    scene.placed(json!({}));
    scene.see_bound(of_group("a"), &[]);
    scene.decide();
    let big = |name: &str| {
        let mut pod = of_group(name);
        pod.metadata.uid = Some(format!("{name}-2"));
        pod
    };
    // One that has asked before, and waits for room.
    scene.see(pod("else", json!({})));
    scene.decide();
    scene.see(big("b"));
    scene.decide();
    let unit = external::of_pod(&key("b"));
    assert_eq!(scene.inside(&unit), Inside::Waiting);
    let mut stops = of_group("a");
    stops.metadata.deletion_timestamp = Some(decoded(json!("2027-01-15T08:00:00Z")));
    scene.see_bound(stops, &[]);
    scene.see(big("c"));
    scene.decide();
    for name in ["b", "c"] {
        let unit = external::of_pod(&key(name));
        assert_eq!(scene.inside(&unit), Inside::No, "{name}");
    }
}

/// Each of them alone would be within it.
#[tokio::test]
async fn a_limit_of_one_job_is_one_for_all_who_join() {
    let mut scene = Scene::new();
    scene.placed(json!({}));
    scene.see_bound(small("a"), &[]);
    scene.limit(json!({"gpusPerJob": 3}));
    scene.decide();
    for name in ["b", "c", "d"] {
        scene.see(small(name));
    }
    scene.decide();
    scene.decide();
    assert_eq!(scene.used(), (3, 0), "4 of 3");
    let refused = ["b", "c", "d"].map(|name| external::of_pod(&key(name)));
    let mut refused = refused
        .iter()
        .filter(|unit| scene.inside(unit) == Inside::No);
    let last = refused.next().unwrap().clone();
    assert!(refused.next().is_none());
    assert_eq!(scene.told(&last), "QuotaPolicyExceeded: ");
    // One that stops counts no more, and who was refused is looked at: its successor, often.
    let mut stops = small("a");
    stops.metadata.deletion_timestamp = Some(decoded(json!("2027-01-15T08:00:00Z")));
    let joined = ["b", "c", "d"].into_iter();
    for name in joined.filter(|name| external::of_pod(&key(name)) != last) {
        scene.see_bound(small(name), &[]);
        let context = scene.driver.committer.context().clone();
        context.tell(Feed::Ended(external::of_pod(&key(name)), Outcome::Done));
    }
    scene.decide();
    scene.see_bound(stops, &[]);
    scene.decide();
    assert_eq!(scene.inside(&last), Inside::Placed);
}

/// Older than its gang, it would have that leave for it where those that came later do.
#[tokio::test]
async fn who_joins_did_not_begin_to_wait_before_its_gang_had_its_place() {
    let mut scene = Scene::new();
    scene.placed(json!({"deadline": "2027-01-15T08:02:00Z"}));
    let of = |name: &str, created: &str| {
        let mut pod = small(name);
        pod.metadata.creation_timestamp = Some(decoded(json!(created)));
        pod
    };
    scene.see_bound(of("a", "2027-01-15T07:59:00Z"), &[]);
    scene.decide();
    scene.see(of("b", "2027-01-15T07:00:00Z"));
    scene.decide();
    let asks = scene.driver.external_pods.gangs[&external::of_pod(&key("b"))]
        .asks
        .clone();
    let placed: k8s_openapi::jiff::Timestamp = "2027-01-15T08:00:00Z".parse().unwrap();
    assert_eq!(asks.unwrap().submitted, placed);
}

/// Users can change the label. Only the annotation from the binding shows the pod's gang.
#[tokio::test]
async fn a_label_that_is_changed_makes_nothing_part_of_a_gang() {
    let mut scene = Scene::new();
    scene.placed(json!({"priority": 9}));
    scene.see_bound(of_group("a"), &[]);
    scene.decide();
    scene.see_bound(of_group("stray"), &[("trellis.dev/placed-with", "other")]);
    scene.decide();
    assert_eq!(
        scene.inside(&external::of_pod(&key("stray"))),
        Inside::Placed
    );
    let gang = &scene.driver.external_pods.gangs[&external::of_group(&key("g"))];
    assert_eq!(gang.held.len(), 1);
    assert_eq!(scene.used(), (8, 0));
}

/// Its user has put it on a node, and named a group: that is no gang to join.
#[tokio::test]
async fn a_gang_that_holds_nothing_takes_nobody_in() {
    let mut scene = Scene::new();
    scene.placed(json!({"queue": null}));
    let mut theirs = of_group("a");
    theirs.spec.node_name = Some("n0".to_owned());
    scene.see(theirs);
    scene.limit(json!({"gpusPerJob": 3}));
    scene.decide();
    scene.see(of_group("b"));
    scene.decide();
    let unit = external::of_pod(&key("b"));
    assert_eq!(scene.told(&unit), "QuotaPolicyExceeded: ");
    scene.limit(json!({"runningJobs": 1}));
    scene.look(&unit);
    let state = &scene.driver.external_pods.gangs[&unit];
    assert_eq!((state.inside, state.joins), (Inside::Placed, false));
}

/// It makes room for somebody, who is not to ask for all of the gang instead.
#[tokio::test(start_paused = true)]
async fn who_leaves_does_so_alone_and_not_as_part_of_the_gang() {
    let mut scene = Scene::new();
    scene.placed(json!({}));
    scene.see_bound(small("a"), &[]);
    scene.decide();
    let alone = external::of_pod(&key("b"));
    scene.see(small("b"));
    scene.decide();
    let mut stops = small("b");
    stops.metadata.deletion_timestamp = Some(decoded(json!("2027-01-15T08:00:00Z")));
    scene.see_bound(stops, &[]);
    let context = scene.driver.committer.context().clone();
    context.tell(Feed::Ended(alone.clone(), Outcome::Done));
    scene.decide();
    tokio::time::advance(Duration::from_secs(5)).await;
    scene.look(&external::of_group(&key("g")));
    assert_eq!(scene.inside(&alone), Inside::Placed);
    let gang = &scene.driver.external_pods.gangs[&external::of_group(&key("g"))];
    assert_eq!(gang.held.len(), 1);
}

/// Rack `r1` of block `b1` is another rack than `r1` of block `b0`, in which the gang is.
#[tokio::test]
async fn pod_joins_its_gang_in_the_domain_and_not_in_another_of_the_same_name() {
    let mut scene = Scene::new();
    for (name, block, gpus) in [("n0", "b0", "4"), ("n1", "b1", "4"), ("n2", "b0", "8")] {
        let node: SlimNode = decoded(json!({
            "metadata": {"name": name, "uid": name, "labels": {"block": block, "rack": "r1"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "96", "memory": "1Ti", GPU: gpus, "pods": "110"}},
        }));
        scene.watched.apply(Key::new("", name), node);
    }
    let topology: trellis_api::Topology = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "hall"},
        "spec": {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]},
    }));
    scene.watched.apply(Key::new("", "hall"), topology);
    scene.placed(json!({}));
    let group = scene.driver.committer.cache().pod_groups.get(&key("g"));
    let mut group = (*group.unwrap()).clone();
    group.spec.topology = Some(decoded(json!({"required": "rack"})));
    group.metadata.resource_version = Some("2".to_owned());
    scene.watched.apply(key("g"), group);
    scene.see_bound(of_group("a"), &[]);
    scene.decide();
    scene.see(of_group("b"));
    scene.decide();
    let unit = external::of_pod(&key("b"));
    let placement = scene.driver.engine.placement(&engine::id(&unit)).unwrap();
    let nodes: Vec<_> = placement.iter().map(|(_, _, node)| node.as_str()).collect();
    assert_eq!(nodes, ["n2"]);
    // Its own selector keeps a pod out of the domain of its gang: it waits, and is not bound to a
    // node that its selector forbids.
    scene.see(decoded(json!({
        "metadata": {"name": "c", "namespace": "team-a", "uid": "c",
            "labels": {"trellis.dev/pod-group": "g"}},
        "spec": {"schedulerName": "trellis", "nodeSelector": {"block": "b1"},
            "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {GPU: "4"}, "limits": {GPU: "4"}}}]},
        "status": {"phase": "Pending"},
    })));
    scene.decide();
    let unit = external::of_pod(&key("c"));
    assert!(scene.driver.engine.placement(&engine::id(&unit)).is_none());
    assert_eq!(scene.inside(&unit), Inside::Waiting);
}

/// Where its gang must be in one domain, and nobody can say in which.
#[tokio::test]
async fn nobody_joins_outside_of_the_domain() {
    let mut scene = Scene::new();
    let context = scene.driver.committer.context().clone();
    scene.placed(json!({}));
    let group = context.cache.pod_groups.get(&key("g")).unwrap();
    let mut group = (*group).clone();
    group.spec.topology = Some(decoded(json!({"required": "example.com/rack"})));
    group.metadata.resource_version = Some("2".to_owned());
    scene.watched.apply(key("g"), group);
    scene.see_bound(small("a"), &[]);
    scene.decide();
    scene.see(small("b"));
    scene.decide();
    let unit = external::of_pod(&key("b"));
    assert_eq!(scene.inside(&unit), Inside::No);
    assert_eq!(scene.told(&unit), "TopologyNotFound: ");
}
