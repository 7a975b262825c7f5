//! A gang for which others leave, as its journal says: written by whoever led before.

use super::nominated::{low, victim};
use super::*;

/// Two pods that ask for the same are each a group of the plan: so they were, when it was made.
const PODS: [&str; 2] = ["a", "b"];

/// A pod of the gang that takes 2 GPUs, of nodes with these labels.
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
    external::of_group(&key("g"))
}

impl Scene {
    /// Another pod has all of the node, and the gang that place after it.
    fn promised(members: [SlimPod; 2]) -> Self {
        Self::promised_by(members, &json!([]))
    }

    /// The same, charged to these limits.
    fn promised_by(members: [SlimPod; 2], limits: &Value) -> Self {
        let mut scene = Self::new();
        let node: SlimNode = decoded(json!({
            "metadata": {"name": "n0", "uid": "n0", "labels": {"disk": "fast"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}},
        }));
        scene.watched.apply(Key::new("", "n0"), node);
        let other: TrainingQueue = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
            "metadata": {"name": "elsewhere"}, "spec": {"namespaceSelector": {}},
        }));
        scene.watched.apply(Key::new("", "elsewhere"), other);
        scene.see_bound(low(), &[]);
        scene.decide();
        for member in members {
            scene.see(member);
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
        scene.watched.apply(key("g"), group);
        scene.driver.take_over_external_pods();
        scene.driver.adopt_nomination_of_external_pods(&unit());
        scene.driver.decide();
        assert_eq!(scene.inside(&unit()), Inside::Nominated);
        scene
    }

    fn alike() -> Self {
        Self::promised(PODS.map(|name| member(name, json!({}), json!({}))))
    }

    /// The victim stops.
    fn has_left(&mut self) {
        Sink::<SlimPod>::delete(self.watched.as_ref(), &key("low"), "low");
        self.decide();
    }

    /// A new leader gets no event for pods that exist already.
    fn unheard(&mut self) {
        let _ = self.driver.heard.take();
    }
}

/// The place counts against the quota of the queue in which it was found.
#[tokio::test]
async fn a_place_in_one_queue_is_none_in_another() {
    for (queue, is_asked, inside, used) in [
        ("default", false, Inside::Placed, 4),
        ("elsewhere", false, Inside::No, 0),
        // The same after the request was found and the queue changed.
        ("elsewhere", true, Inside::No, 0),
    ] {
        let mut scene = Scene::alike();
        if is_asked {
            let found = scene.driver.find_nominated(&unit()).unwrap();
            let asks = found.asks().unwrap();
            assert_eq!(asks.queue, "default");
        }
        for name in PODS {
            let labels = json!({"trellis.dev/queue": queue});
            scene.see(member(name, labels, json!({})));
        }
        scene.unheard();
        scene.has_left();
        assert_eq!(scene.inside(&unit()), inside, "{queue}");
        assert_eq!(scene.used(), (used, 0), "{queue}");
    }
}

/// Nor does anybody leave for it.
#[tokio::test]
async fn nobody_is_told_to_leave_for_a_place_in_another_queue() {
    for (queue, inside, is_told) in [
        ("default", Inside::Nominated, true),
        ("elsewhere", Inside::No, false),
    ] {
        let mut scene = Scene::alike();
        scene.unheard();
        for name in PODS {
            scene.see(member(name, json!({"trellis.dev/queue": queue}), json!({})));
        }
        scene.decide();
        assert_eq!(scene.inside(&unit()), inside, "{queue}");
        scene.decide();
        let low = external::of_pod(&key("low"));
        assert_eq!(scene.is_busy(&low), is_told, "{queue}");
    }
}

/// The pods may have differed, or may differ now, only because of the pod that has left.
#[tokio::test]
async fn the_place_is_theirs_whatever_tells_its_pods_apart_by_now() {
    for selector in [json!({}), json!({"disk": "fast"})] {
        let [a, b] = PODS;
        let a = member(a, json!({}), json!({}));
        let mut scene = Scene::promised([a, member(b, json!({}), selector.clone())]);
        scene.unheard();
        scene.has_left();
        assert_eq!(scene.inside(&unit()), Inside::Placed, "{selector}");
        assert_eq!(scene.used(), (4, 0), "{selector}");
    }
}

/// A new limit counts a gang whose victims have left.
#[tokio::test]
async fn a_limit_that_came_meanwhile_counts_it() {
    let mut scene = Scene::alike();
    scene.limit(json!({"gpuHours": {"limit": 10, "windowHours": 720}}));
    scene.unheard();
    let drawn = |scene: &Scene| -> Vec<i128> {
        let limits = scene.driver.engine.limits();
        limits.map(|(_, gpus)| gpus).collect()
    };
    scene.has_left();
    assert_eq!(scene.inside(&unit()), Inside::Placed);
    assert_eq!(drawn(&scene), [4]);
}

/// A limit that is new, or lower since the nomination, keeps the gang out.
#[tokio::test]
async fn a_limit_that_it_does_not_fit_into_by_now_keeps_it_out() {
    for (max, inside, used) in [(4, Inside::Placed, 4), (3, Inside::Waiting, 0)] {
        let mut scene = Scene::alike();
        scene.limit(json!({"resources": [{"resource": GPU, "max": max}]}));
        scene.look(&unit());
        scene.ends(&external::of_pod(&key("low")), Outcome::Done);
        scene.unheard();
        scene.has_left();
        assert_eq!(scene.inside(&unit()), inside, "{max}");
        assert_eq!(scene.used(), (used, 0), "{max}");
    }
}

/// An earlier leader has charged it, and nobody has judged it yet.
#[tokio::test]
async fn what_a_leader_before_has_charged_is_counted_so() {
    let charged = json!([{"policy": "limit", "limit": GPU}]);
    let members = PODS.map(|name| member(name, json!({}), json!({})));
    let mut scene = Scene::promised_by(members, &charged);
    let drawn: Vec<i128> = scene.driver.engine.limits().map(|(_, gpus)| gpus).collect();
    assert_eq!(drawn, [4]);
    // Another draws on the same, and has been judged.
    scene.limit(json!({"resources": [{"resource": GPU, "max": 100}]}));
    let node: SlimNode = decoded(json!({
        "metadata": {"name": "n1", "uid": "n1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}},
    }));
    scene.watched.apply(Key::new("", "n1"), node);
    let mut other = low();
    other.metadata.name = Some("other".to_owned());
    other.metadata.uid = Some("other".to_owned());
    other.metadata.annotations =
        Some([("trellis.dev/placed-in".to_owned(), "default".to_owned())].into());
    other.spec.node_name = Some("n1".to_owned());
    scene.unheard();
    scene.see(other);
    scene.decide();
    let drawn: Vec<i128> = scene.driver.engine.limits().map(|(_, gpus)| gpus).collect();
    assert_eq!(drawn, [12]);
    assert_eq!(scene.driver.limits_of_external_pods(&unit()), None);
    scene.driver.report_limits();
    let wrong = &scene.driver.wrong_limits;
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Pods of others may have come to its node since, which want none of its pods beside them.
#[tokio::test]
async fn a_node_that_others_keep_it_out_of_by_now_is_not_its_place_any_more() {
    for (keeps_out, inside, used) in [("x", Inside::Placed, 4), ("g", Inside::No, 0)] {
        let mut scene = Scene::alike();
        let selector = json!({"matchLabels": {"trellis.dev/pod-group": keeps_out}});
        let other: SlimPod = decoded(json!({
            "metadata": {"name": "other", "namespace": "team-a", "uid": "other"},
            "spec": {"nodeName": "n0", "schedulerName": "default-scheduler",
                "containers": [{"name": "c", "image": "i"}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "disk", "labelSelector": selector}]}}},
            "status": {"phase": "Running"},
        }));
        scene.see(other);
        scene.unheard();
        scene.has_left();
        assert_eq!(scene.inside(&unit()), inside, "{keeps_out}");
        assert_eq!(scene.used(), (used, 0), "{keeps_out}");
    }
}
