//! A gang with victims, nominated in a journal that an earlier leader wrote.

use super::nominated_pod::{low, victim};
use super::*;

/// Two pods with the same request. Each is a separate group of the plan, because they differed when
/// the plan was made.
const PODS: [&str; 2] = ["a", "b"];

/// Returns a pod of the gang that takes 2 GPUs, of nodes with these labels.
fn member(name: &str, labels: Value, selector: Value) -> SlimPod {
    let mut labels = labels;
    labels["trellis.dev/pod-group"] = json!("g");
    decoded(json!({
        "metadata": {"name": name, "namespace": "team-a", "uid": name, "labels": labels},
        "spec": {"schedulerName": "trellis", "nodeSelector": selector, "containers": [
            {"name": "c", "image": "i",
                "resources": {"requests": {GPU: "2"}, "limits": {GPU: "2"}}}]},
        "status": {"phase": "Pending"},
    }))
}

fn unit() -> Key {
    external::pod_group_gang_key(&key("g"))
}

impl ExternalPodsFixture {
    /// Creates a node that another pod fills, and a gang nominated for its place.
    fn nominated(members: [SlimPod; 2]) -> Self {
        Self::nominated_with_limits(members, &json!([]))
    }

    /// Returns the same fixture, with the place charged to these limits.
    fn nominated_with_limits(members: [SlimPod; 2], limits: &Value) -> Self {
        let mut scene = Self::new();
        let node: SlimNode = decoded(json!({
            "metadata": {"name": "n0", "uid": "n0", "labels": {"disk": "fast"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}},
        }));
        scene.sink.apply(Key::new("", "n0"), node);
        let other: TrainingQueue = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
            "metadata": {"name": "elsewhere"}, "spec": {"namespaceSelector": {}},
        }));
        scene.sink.apply(Key::new("", "elsewhere"), other);
        scene.see_bound(low(), &[]);
        scene.decide();
        for member in members {
            scene.add_pod(member);
        }
        let epoch = scene.driver.committer.commands().epoch().unwrap().0;
        let groups = PODS.map(|name| {
            json!({"group": if name == "a" { "g0" } else { "g1" }, "node": "n0", "count": 1,
                "pods": [{"name": name, "uid": name}]})
        });
        let group: PodGroup = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": 2},
            "status": {"phase": "Nominated", "epoch": epoch, "victims": [victim()],
                "plan": {"hash": "p", "attempt": 1, "generation": 1, "queue": "default",
                    "limits": limits, "compiled": "", "assignments": groups}},
        }));
        scene.sink.apply(key("g"), group);
        scene.driver.take_over_external_pods();
        scene.driver.restore_external_nomination(&unit());
        scene.driver.decide();
        assert_eq!(scene.engine_state(&unit()), EngineState::Nominated);
        scene
    }

    fn nominated_with_equal_pods() -> Self {
        Self::nominated(PODS.map(|name| member(name, json!({}), json!({}))))
    }

    /// Deletes the victim.
    fn delete_victim(&mut self) {
        Sink::<SlimPod>::delete(self.sink.as_ref(), &key("low"), "low");
        self.decide();
    }

    /// Drops all events, because a new leader gets no event for existing pods.
    fn drop_events(&mut self) {
        let _ = self.driver.events.take_all();
    }
}

/// The place counts against the quota of the queue in which it was found.
#[tokio::test]
async fn nominated_place_is_lost_when_the_queue_changes() {
    for (queue, is_asked, inside, used) in [
        ("default", false, EngineState::Placed, 4),
        ("elsewhere", false, EngineState::Absent, 0),
        // The same after the request was found and the queue changed.
        ("elsewhere", true, EngineState::Absent, 0),
    ] {
        let mut scene = ExternalPodsFixture::nominated_with_equal_pods();
        if is_asked {
            let found = scene.driver.find_nominated_request(&unit()).unwrap();
            let asks = found.into_request().unwrap();
            assert_eq!(asks.queue, "default");
        }
        for name in PODS {
            let labels = json!({"trellis.dev/queue": queue});
            scene.add_pod(member(name, labels, json!({})));
        }
        scene.drop_events();
        scene.delete_victim();
        assert_eq!(scene.engine_state(&unit()), inside, "{queue}");
        assert_eq!(scene.used_gpus(), (used, 0), "{queue}");
    }
}

/// No victim leaves for the gang either.
#[tokio::test]
async fn victims_stay_when_the_preemptor_changes_its_queue() {
    for (queue, inside, is_told) in [
        ("default", EngineState::Nominated, true),
        ("elsewhere", EngineState::Absent, false),
    ] {
        let mut scene = ExternalPodsFixture::nominated_with_equal_pods();
        scene.drop_events();
        for name in PODS {
            scene.add_pod(member(name, json!({"trellis.dev/queue": queue}), json!({})));
        }
        scene.decide();
        assert_eq!(scene.engine_state(&unit()), inside, "{queue}");
        scene.decide();
        let low = external::pod_gang_key(&key("low"));
        assert_eq!(scene.has_task(&low), is_told, "{queue}");
    }
}

/// The pods may have differed, or may differ now, only because of the pod that has left.
#[tokio::test]
async fn nominated_gang_keeps_its_place_when_its_pods_differ() {
    for selector in [json!({}), json!({"disk": "fast"})] {
        let [a, b] = PODS;
        let a = member(a, json!({}), json!({}));
        let mut scene = ExternalPodsFixture::nominated([a, member(b, json!({}), selector.clone())]);
        scene.drop_events();
        scene.delete_victim();
        assert_eq!(
            scene.engine_state(&unit()),
            EngineState::Placed,
            "{selector}"
        );
        assert_eq!(scene.used_gpus(), (4, 0), "{selector}");
    }
}

/// A new limit counts a gang whose victims have left.
#[tokio::test]
async fn new_limit_counts_the_nominated_gang() {
    let mut scene = ExternalPodsFixture::nominated_with_equal_pods();
    scene.limit(json!({"gpuHours": {"limit": 10, "windowHours": 720}}));
    scene.drop_events();
    let drawn = |scene: &ExternalPodsFixture| -> Vec<i128> {
        let limits = scene.driver.engine.limit_usage();
        limits.map(|(_, gpus)| gpus).collect()
    };
    scene.delete_victim();
    assert_eq!(scene.engine_state(&unit()), EngineState::Placed);
    assert_eq!(drawn(&scene), [4]);
}

/// A limit that is new, or lower since the nomination, keeps the gang out.
#[tokio::test]
async fn lowered_limit_keeps_the_nominated_gang_out() {
    for (max, inside, used) in [(4, EngineState::Placed, 4), (3, EngineState::Waiting, 0)] {
        let mut scene = ExternalPodsFixture::nominated_with_equal_pods();
        scene.limit(json!({"resources": [{"resource": GPU, "max": max}]}));
        scene.recheck(&unit());
        scene.end_task(&external::pod_gang_key(&key("low")), TaskOutcome::Done);
        scene.drop_events();
        scene.delete_victim();
        assert_eq!(scene.engine_state(&unit()), inside, "{max}");
        assert_eq!(scene.used_gpus(), (used, 0), "{max}");
    }
}

/// An earlier leader has charged the gang, and policies have not judged it yet.
#[tokio::test]
async fn limits_charged_by_an_earlier_leader_stay_charged() {
    let charged = json!([{"policy": "limit", "limit": GPU}]);
    let members = PODS.map(|name| member(name, json!({}), json!({})));
    let mut scene = ExternalPodsFixture::nominated_with_limits(members, &charged);
    let drawn: Vec<i128> = scene
        .driver
        .engine
        .limit_usage()
        .map(|(_, gpus)| gpus)
        .collect();
    assert_eq!(drawn, [4]);
    // Another gang draws on the same limit, and has been judged.
    scene.limit(json!({"resources": [{"resource": GPU, "max": 100}]}));
    let node: SlimNode = decoded(json!({
        "metadata": {"name": "n1", "uid": "n1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}},
    }));
    scene.sink.apply(Key::new("", "n1"), node);
    let mut other = low();
    other.metadata.name = Some("other".to_owned());
    other.metadata.uid = Some("other".to_owned());
    other.metadata.annotations =
        Some([("trellis.dev/placed-in".to_owned(), "default".to_owned())].into());
    other.spec.node_name = Some("n1".to_owned());
    scene.drop_events();
    scene.add_pod(other);
    scene.decide();
    let drawn: Vec<i128> = scene
        .driver
        .engine
        .limit_usage()
        .map(|(_, gpus)| gpus)
        .collect();
    assert_eq!(drawn, [12]);
    assert_eq!(scene.driver.external_limits(&unit()), None);
    scene.driver.report_limits();
    let wrong = &scene.driver.wrong_limits;
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Pods of other schedulers may have come to its node since, with anti-affinity against its pods.
#[tokio::test]
async fn nominated_place_is_lost_when_a_pod_repels_the_gang() {
    for (keeps_out, inside, used) in [("x", EngineState::Placed, 4), ("g", EngineState::Absent, 0)]
    {
        let mut scene = ExternalPodsFixture::nominated_with_equal_pods();
        let selector = json!({"matchLabels": {"trellis.dev/pod-group": keeps_out}});
        let other: SlimPod = decoded(json!({
            "metadata": {"name": "other", "namespace": "team-a", "uid": "other"},
            "spec": {"nodeName": "n0", "schedulerName": "default-scheduler",
                "containers": [{"name": "c", "image": "i"}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "disk", "labelSelector": selector}]}}},
            "status": {"phase": "Running"},
        }));
        scene.add_pod(other);
        scene.drop_events();
        scene.delete_victim();
        assert_eq!(scene.engine_state(&unit()), inside, "{keeps_out}");
        assert_eq!(scene.used_gpus(), (used, 0), "{keeps_out}");
    }
}
