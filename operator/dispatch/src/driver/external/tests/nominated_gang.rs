//! An external gang that an earlier leader nominated. Its victims have not left yet.

use super::nominated_pod::{low, victim};
use super::*;

/// The pods of the gang. Their requests are equal now, but differed when the plan was made, so each
/// pod is a group of the plan.
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
    /// Creates a node that the pod "low" fills, and a gang nominated for the place of that pod.
    fn nominated(members: [SlimPod; 2]) -> Self {
        Self::nominated_with_limits(members, &json!([]))
    }

    /// Creates the same fixture, with a plan that is charged to these limits.
    fn nominated_with_limits(members: [SlimPod; 2], limits: &Value) -> Self {
        let mut fixture = Self::new();
        let node: SlimNode = decoded(json!({
            "metadata": {"name": "n0", "uid": "n0", "labels": {"disk": "fast"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}},
        }));
        fixture.sink.apply(Key::new("", "n0"), node);
        fixture.queue("elsewhere", json!({"namespaceSelector": {}}));
        fixture.see_bound(low(), &[]);
        fixture.decide();
        for member in members {
            fixture.add_pod(member);
        }
        let epoch = fixture.driver.committer.commands().epoch().unwrap().0;
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
        fixture.sink.apply(key("g"), group);
        fixture.driver.take_over_external_pods();
        fixture.driver.restore_external_nomination(&unit());
        fixture.driver.decide();
        assert_eq!(fixture.engine_state(&unit()), EngineState::Nominated);
        fixture
    }

    fn nominated_with_equal_pods() -> Self {
        Self::nominated(PODS.map(|name| member(name, json!({}), json!({}))))
    }

    /// Deletes the victim.
    fn delete_victim(&mut self) {
        Sink::<SlimPod>::delete(self.sink.as_ref(), &key("low"), "low");
        self.decide();
    }

    /// Drops all events. A new leader gets no event for existing pods.
    fn drop_events(&mut self) {
        let _ = self.driver.events.take_all();
    }
}

/// The place counts against the quota of the queue in which it was found.
#[tokio::test]
async fn nominated_place_is_lost_when_the_queue_changes() {
    for (queue, has_request, state, used) in [
        ("default", false, EngineState::Placed, 4),
        ("elsewhere", false, EngineState::Absent, 0),
        // The driver already knows the request when the queue changes.
        ("elsewhere", true, EngineState::Absent, 0),
    ] {
        let mut fixture = ExternalPodsFixture::nominated_with_equal_pods();
        if has_request {
            let request = fixture.driver.find_nominated_request(&unit()).unwrap();
            let request = request.into_request().unwrap();
            assert_eq!(request.queue, "default");
        }
        for name in PODS {
            let labels = json!({"trellis.dev/queue": queue});
            fixture.add_pod(member(name, labels, json!({})));
        }
        fixture.drop_events();
        fixture.delete_victim();
        assert_eq!(fixture.engine_state(&unit()), state, "{queue}");
        assert_eq!(fixture.used_gpus(), (used, 0), "{queue}");
    }
}

/// The driver evicts no victim for a gang that has lost its nomination.
#[tokio::test]
async fn victims_stay_when_the_preemptor_changes_its_queue() {
    for (queue, state, is_evicted) in [
        ("default", EngineState::Nominated, true),
        ("elsewhere", EngineState::Absent, false),
    ] {
        let mut fixture = ExternalPodsFixture::nominated_with_equal_pods();
        fixture.drop_events();
        for name in PODS {
            fixture.add_pod(member(name, json!({"trellis.dev/queue": queue}), json!({})));
        }
        fixture.decide();
        assert_eq!(fixture.engine_state(&unit()), state, "{queue}");
        fixture.decide();
        let low = external::pod_gang_key(&key("low"));
        assert_eq!(fixture.has_task(&low), is_evicted, "{queue}");
    }
}

/// The plan has one group for each pod, whether or not their requests are equal now.
#[tokio::test]
async fn nominated_gang_keeps_its_place_when_its_pods_differ() {
    for selector in [json!({}), json!({"disk": "fast"})] {
        let [a, b] = PODS;
        let a = member(a, json!({}), json!({}));
        let mut fixture =
            ExternalPodsFixture::nominated([a, member(b, json!({}), selector.clone())]);
        fixture.drop_events();
        fixture.delete_victim();
        assert_eq!(
            fixture.engine_state(&unit()),
            EngineState::Placed,
            "{selector}"
        );
        assert_eq!(fixture.used_gpus(), (4, 0), "{selector}");
    }
}

/// A new limit counts a gang whose victims have left.
#[tokio::test]
async fn new_limit_counts_the_nominated_gang() {
    let mut fixture = ExternalPodsFixture::nominated_with_equal_pods();
    fixture.limit(json!({"gpuHours": {"limit": 10, "windowHours": 720}}));
    fixture.drop_events();
    let usage = |fixture: &ExternalPodsFixture| -> Vec<i128> {
        let limits = fixture.driver.engine.limit_usage();
        limits.map(|(_, gpus)| gpus).collect()
    };
    fixture.delete_victim();
    assert_eq!(fixture.engine_state(&unit()), EngineState::Placed);
    assert_eq!(usage(&fixture), [4]);
}

/// A limit that is new or lower than at the nomination keeps the gang from its place.
#[tokio::test]
async fn lowered_limit_keeps_the_nominated_gang_out() {
    for (max, state, used) in [(4, EngineState::Placed, 4), (3, EngineState::Waiting, 0)] {
        let mut fixture = ExternalPodsFixture::nominated_with_equal_pods();
        fixture.limit(json!({"resources": [{"resource": GPU, "max": max}]}));
        fixture.recheck(&unit());
        fixture.end_task(&external::pod_gang_key(&key("low")), TaskOutcome::Done);
        fixture.drop_events();
        fixture.delete_victim();
        assert_eq!(fixture.engine_state(&unit()), state, "{max}");
        assert_eq!(fixture.used_gpus(), (used, 0), "{max}");
    }
}

/// An earlier leader has charged the gang, and this leader has not evaluated policies for it yet.
#[tokio::test]
async fn limits_charged_by_an_earlier_leader_stay_charged() {
    let charged = json!([{"policy": "limit", "limit": GPU}]);
    let members = PODS.map(|name| member(name, json!({}), json!({})));
    let mut fixture = ExternalPodsFixture::nominated_with_limits(members, &charged);
    let usage: Vec<i128> = fixture
        .driver
        .engine
        .limit_usage()
        .map(|(_, gpus)| gpus)
        .collect();
    assert_eq!(usage, [4]);
    // This leader has evaluated policies for another gang that draws on the same limit.
    fixture.limit(json!({"resources": [{"resource": GPU, "max": 100}]}));
    let node: SlimNode = decoded(json!({
        "metadata": {"name": "n1", "uid": "n1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}},
    }));
    fixture.sink.apply(Key::new("", "n1"), node);
    let mut other = low();
    other.metadata.name = Some("other".to_owned());
    other.metadata.uid = Some("other".to_owned());
    other.metadata.annotations =
        Some([("trellis.dev/placed-in".to_owned(), "default".to_owned())].into());
    other.spec.node_name = Some("n1".to_owned());
    fixture.drop_events();
    fixture.add_pod(other);
    fixture.decide();
    let usage: Vec<i128> = fixture
        .driver
        .engine
        .limit_usage()
        .map(|(_, gpus)| gpus)
        .collect();
    assert_eq!(usage, [12]);
    assert_eq!(fixture.driver.external_limits(&unit()), None);
    fixture.driver.report_limits();
    let wrong = &fixture.driver.wrong_limits;
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// After the nomination, a pod of another scheduler was bound to the node. Its anti-affinity repels
/// pods of the gang.
#[tokio::test]
async fn nominated_place_is_lost_when_a_pod_repels_the_gang() {
    for (repelled_group, state, used) in
        [("x", EngineState::Placed, 4), ("g", EngineState::Absent, 0)]
    {
        let mut fixture = ExternalPodsFixture::nominated_with_equal_pods();
        let selector = json!({"matchLabels": {"trellis.dev/pod-group": repelled_group}});
        let other: SlimPod = decoded(json!({
            "metadata": {"name": "other", "namespace": "team-a", "uid": "other"},
            "spec": {"nodeName": "n0", "schedulerName": "default-scheduler",
                "containers": [{"name": "c", "image": "i"}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "disk", "labelSelector": selector}]}}},
            "status": {"phase": "Running"},
        }));
        fixture.add_pod(other);
        fixture.drop_events();
        fixture.delete_victim();
        assert_eq!(fixture.engine_state(&unit()), state, "{repelled_group}");
        assert_eq!(fixture.used_gpus(), (used, 0), "{repelled_group}");
    }
}
