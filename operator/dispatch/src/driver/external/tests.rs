//! External pods in the engine, by what is heard of them. The API server does not answer: what it
//! would have said is said by the test.

use serde_json::{Value, json};
use trellis_api::{PodGroup, Reason, TrainingQueue};
use trellis_cache::watch::Sink;
use trellis_gang::fixtures::policies;
use trellis_gang::observed::{SlimNamespace, SlimNode, SlimPod};
use trellis_scheduler::ResourceName;

use super::super::tests::{decoded, driver};
use super::*;
use crate::Feed;
use crate::commit::Outcome;
use crate::context::WatchSink;

mod claims;
mod grace;
mod joined;
mod judged;
mod namespace;
mod nominated;
mod preempt;
mod promised;
mod queues;
mod tell;

const GPU: &str = "nvidia.com/gpu";

struct Scene {
    driver: Driver,
    watched: Arc<WatchSink>,
}

fn key(pod: &str) -> Key {
    Key::new("team-a", pod)
}

/// A pod that asks for 4 GPUs.
fn pod(name: &str, labels: Value) -> SlimPod {
    decoded(json!({
        "metadata": {"name": name, "namespace": "team-a", "uid": name, "labels": labels},
        "spec": {"schedulerName": "trellis", "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {GPU: "4"}, "limits": {GPU: "4"}}}]},
        "status": {"phase": "Pending"},
    }))
}

impl Scene {
    /// One node of 8 GPUs, and a queue for all.
    fn new() -> Self {
        let mut driver = driver();
        driver.external_pods.judgements.at_once = true;
        let context = driver.committer.context().clone();
        let watched = WatchSink::new(&context);
        context.cache.policies.replace(policies());
        let node: SlimNode = decoded(json!({
            "metadata": {"name": "n0", "uid": "n0"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}},
        }));
        watched.apply(Key::new("", "n0"), node);
        let queue: TrainingQueue = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "default"},
            "spec": {"namespaceSelector": {}, "defaultFor": {}},
        }));
        watched.apply(Key::new("", "default"), queue);
        let scene = Self { driver, watched };
        scene.namespace(json!({}));
        scene
    }

    /// The namespace of all pods has these labels.
    fn namespace(&self, labels: Value) {
        let meta = json!({"name": "team-a", "uid": "team-a", "labels": labels});
        let namespace: SlimNamespace = decoded(json!({"metadata": meta}));
        self.watched.apply(Key::new("", "team-a"), namespace);
    }

    fn see(&self, pod: SlimPod) {
        self.watched.apply(Key::of(&pod.metadata), pod);
    }

    /// Handles pending events, and lets the engine decide.
    fn decide(&mut self) {
        let mut touched = BTreeSet::new();
        for feed in self.driver.heard.take() {
            self.driver.hear(feed, &mut touched);
        }
        for unit in touched {
            self.driver.advance(&unit);
        }
        self.driver.decide();
    }

    /// A pod that Trellis has bound there, in the default queue.
    fn see_bound(&self, mut pod: SlimPod, more: &[(&str, &str)]) {
        pod.spec.node_name = Some("n0".to_owned());
        let mut annotations: Vec<(&str, &str)> = vec![("trellis.dev/placed-in", "default")];
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        if let Some(group) = labels.get("trellis.dev/pod-group") {
            annotations.push(("trellis.dev/placed-with", group));
        }
        annotations.extend(more);
        let all = annotations.into_iter();
        let all = all.map(|(key, value)| (key.to_owned(), value.to_owned()));
        pod.metadata.annotations = Some(all.collect());
        self.see(pod);
    }

    /// A PodGroup whose gang of one has its place, by this plan too.
    fn placed(&self, plan: Value) {
        let mut group = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": 1},
            "status": {"phase": "Placed", "plan": {"hash": "p", "attempt": 1, "generation": 1,
                "queue": "default", "priority": 0, "compiled": "", "assignments": []}},
        });
        for (field, value) in plan.as_object().unwrap() {
            group["status"]["plan"][field] = value.clone();
        }
        self.watched.apply(key("g"), decoded::<PodGroup>(group));
    }

    fn limit(&self, limits: Value) {
        let context = self.driver.committer.context();
        let policy: trellis_api::QuotaPolicy = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
            "metadata": {"name": "limit"},
            "spec": {"subject": {"namespaceSelector": {}}, "limits": limits},
        }));
        context
            .cache
            .quotas
            .objects
            .observed(Key::new("", "limit"), policy);
        context.cache.quotas.changed();
    }

    fn inside(&self, unit: &Key) -> Inside {
        self.driver.inside_of_external_pods(unit)
    }

    /// The reason that a gang was given last.
    fn told(&self, unit: &Key) -> String {
        let told = &self.driver.external_pods.gangs[unit].telling.told;
        told.values().map(|told| told.words.clone()).collect()
    }

    /// Like [`Self::decide`], but drops results of tasks, which fail without an API server.
    fn decide_unanswered(&mut self) {
        let mut touched = BTreeSet::new();
        for feed in self.driver.heard.take() {
            if !matches!(feed, Feed::Ended(..) | Feed::Told(..)) {
                self.driver.hear(feed, &mut touched);
            }
        }
        while let Some(unit) = self.driver.alarms.take_due(Instant::now()) {
            touched.insert(unit);
        }
        for unit in touched {
            self.driver.advance(&unit);
        }
        self.driver.decide();
    }

    fn look(&mut self, unit: &Key) {
        let context = self.driver.committer.context().clone();
        context.tell(Feed::Look(unit.clone()));
        self.decide();
    }

    /// Where the engine counts it.
    fn counts_in(&self, unit: &Key) -> Option<String> {
        let id = trellis_gang::engine::id(unit);
        let gangs = self.driver.engine.snapshot().gangs;
        let told = gangs.into_iter().find(|told| told.gang.id == id)?;
        let gang = told.place.map_or(told.gang, |place| place.gang);
        Some(gang.queue.as_str().to_owned())
    }

    /// GPUs that gangs hold, and that other pods use.
    fn used(&self) -> (i128, i128) {
        let totals = self.driver.engine.totals();
        let gpus = totals.get(&ResourceName::new(GPU));
        gpus.map_or((0, 0), |gpus| (gpus.held, gpus.others))
    }
}

#[tokio::test]
async fn a_pod_that_goes_before_it_is_bound_leaves_nothing_behind() {
    let mut scene = Scene::new();
    let unit = external::of_pod(&key("p"));
    scene.see(pod("p", json!({})));
    scene.decide();
    assert_eq!(scene.used(), (4, 0), "it has found its place");
    assert!(scene.driver.external_pods.name(&key("p")).is_some());
    Sink::<SlimPod>::delete(scene.watched.as_ref(), &key("p"), "p");
    scene.decide();
    let refused = Outcome::Undo(Reason::PodRefused, "it is gone".to_owned());
    let context = scene.driver.committer.context().clone();
    context.tell(Feed::Ended(unit, refused));
    scene.decide();
    assert_eq!(scene.used(), (0, 0));
    let external_pods = &scene.driver.external_pods;
    assert!(
        external_pods.gangs.is_empty() && external_pods.names.is_empty(),
        "{external_pods:?}"
    );
}

/// Something about a pod changes while its gang is being bound: the pod itself is looked at.
#[tokio::test]
async fn a_look_at_a_pod_does_not_take_it_from_its_gang() {
    let mut scene = Scene::new();
    let group: PodGroup = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
        "spec": {"minMember": 2},
    }));
    scene.watched.apply(key("g"), group);
    let of_group = json!({"trellis.dev/pod-group": "g"});
    for name in ["a", "b"] {
        scene.see(pod(name, of_group.clone()));
    }
    scene.decide();
    assert_eq!(scene.used(), (8, 0));
    let named = scene.driver.external_pods.name(&key("a")).cloned();
    assert!(named.is_some());
    scene.look(&external::of_pod(&key("a")));
    assert_eq!(scene.driver.external_pods.name(&key("a")).cloned(), named);
    // The watch shows it on its node: it is the one that was assumed there, and not one more.
    let mut bound = pod("a", of_group);
    bound.spec.node_name = Some("n0".to_owned());
    scene.see(bound);
    scene.decide();
    assert_eq!(scene.used(), (8, 0));
}

/// One that its user has put on a node, by the name of a queue and of a group.
#[tokio::test]
async fn what_somebody_else_has_bound_is_a_pod_like_any_other() {
    let mut scene = Scene::new();
    for (name, labels) in [
        ("a", json!({"trellis.dev/queue": "default"})),
        ("b", json!({"trellis.dev/pod-group": "g"})),
    ] {
        let mut pod = pod(name, labels);
        pod.spec.node_name = Some("n0".to_owned());
        scene.see(pod);
    }
    scene.decide();
    assert_eq!(scene.used(), (0, 8));
}

/// The queue stands on the pod. Without its PodGroup it counts by itself.
#[tokio::test]
async fn what_was_bound_before_we_led_counts_though_its_group_is_gone() {
    let mut scene = Scene::new();
    for name in ["a", "b"] {
        scene.see_bound(pod(name, json!({"trellis.dev/pod-group": "gone"})), &[]);
    }
    scene.decide();
    assert_eq!(scene.used(), (8, 0));
    Sink::<SlimPod>::delete(scene.watched.as_ref(), &key("a"), "a");
    scene.decide();
    assert_eq!(scene.used(), (4, 0));
}

/// Deleting the PodGroup protects no pod from preemption: without it there is no gang.
#[tokio::test]
async fn each_pod_of_a_gang_whose_group_goes_holds_its_place_by_itself() {
    let mut scene = Scene::new();
    let group: PodGroup = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
        "spec": {"minMember": 2},
        "status": {"phase": "Placed", "plan": {"hash": "p", "attempt": 1, "generation": 1,
            "queue": "default", "priority": 0, "compiled": "", "assignments": []}},
    }));
    scene.watched.apply(key("g"), group);
    for name in ["a", "b"] {
        scene.see_bound(pod(name, json!({"trellis.dev/pod-group": "g"})), &[]);
    }
    scene.decide();
    let inside = |scene: &Scene| {
        let units = [external::of_group(&key("g")), external::of_pod(&key("a"))];
        units.map(|unit| scene.driver.inside_of_external_pods(&unit))
    };
    assert_eq!(scene.used(), (8, 0));
    assert_eq!(inside(&scene), [Inside::Placed, Inside::No]);
    Sink::<PodGroup>::delete(scene.watched.as_ref(), &key("g"), "g");
    scene.decide();
    assert_eq!(scene.used(), (8, 0));
    assert_eq!(inside(&scene), [Inside::No, Inside::Placed]);
}

/// A limit of one pod's account counts the whole gang, whatever account its first pod has.
#[tokio::test]
async fn a_limit_of_an_account_is_one_for_all_of_the_gang() {
    let mut scene = Scene::new();
    let context = scene.driver.committer.context().clone();
    let policy: trellis_api::QuotaPolicy = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy", "metadata": {"name": "limit"},
        "spec": {"subject": {"serviceAccountName": "limited"},
            "limits": {"resources": [{"resource": GPU, "max": 4}]}},
    }));
    context
        .cache
        .quotas
        .objects
        .observed(Key::new("", "limit"), policy);
    context.cache.quotas.changed();
    let group = |name: &str| -> PodGroup {
        decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "team-a", "uid": name, "resourceVersion": "1"},
            "spec": {"minMember": 2},
        }))
    };
    let see = |scene: &Scene, name: &str, group: &str, account: &str| {
        let mut raw = json!({
            "metadata": {"name": name, "namespace": "team-a", "uid": name,
                "labels": {"trellis.dev/pod-group": group}},
            "spec": {"schedulerName": "trellis", "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {GPU: "4"}, "limits": {GPU: "4"}}}]},
            "status": {"phase": "Pending"},
        });
        raw["spec"]["serviceAccountName"] = json!(account);
        scene.see(decoded(raw));
    };
    scene.watched.apply(key("mixed"), group("mixed"));
    see(&scene, "a", "mixed", "free");
    see(&scene, "b", "mixed", "limited");
    scene.decide();
    assert_eq!(scene.used(), (0, 0), "8 of 4");
    scene.watched.apply(key("free"), group("free"));
    see(&scene, "c", "free", "free");
    see(&scene, "d", "free", "free");
    scene.decide();
    assert_eq!(scene.used(), (8, 0));
}

#[tokio::test(start_paused = true)]
async fn who_is_not_let_in_is_looked_at_ever_more_seldom() {
    let mut scene = Scene::new();
    scene.see(pod("p", json!({"trellis.dev/queue": "none"})));
    scene.decide_unanswered();
    let mut waits = Vec::new();
    for _ in 0..4 {
        let next = scene.driver.alarms.next().unwrap();
        waits.push(next.saturating_duration_since(Instant::now()).as_secs());
        tokio::time::advance(next.saturating_duration_since(Instant::now())).await;
        scene.decide_unanswered();
    }
    assert_eq!(waits, [5, 10, 20, 20]);
}
