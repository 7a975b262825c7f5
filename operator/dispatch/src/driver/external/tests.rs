//! External pods in the engine, as the events of the watches show them. The API server does not
//! answer, so each test supplies its answers.

use serde_json::{Value, json};
use trellis_api::{PodGroup, Reason, TrainingQueue};
use trellis_cache::watch::Sink;
use trellis_gang::fixtures::policies;
use trellis_gang::observed::{SlimNamespace, SlimNode, SlimPod};
use trellis_scheduler::ResourceName;

use super::super::tests::{decoded, driver};
use super::*;
use crate::SchedulerEvent;
use crate::context::WatchSink;
use crate::task_outcome::TaskOutcome;

mod claims;
mod grace;
mod joining_pods;
mod namespace;
mod nominated_gang;
mod nominated_pod;
mod pod_conditions;
mod policy_decisions;
mod preemption;
mod queues;

const GPU: &str = "nvidia.com/gpu";

struct ExternalPodsFixture {
    driver: Driver,
    sink: Arc<WatchSink>,
}

fn key(pod: &str) -> Key {
    Key::new("team-a", pod)
}

/// Returns a pod that requests 4 GPUs.
fn pod(name: &str, labels: Value) -> SlimPod {
    decoded(json!({
        "metadata": {"name": name, "namespace": "team-a", "uid": name, "labels": labels},
        "spec": {"schedulerName": "trellis", "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {GPU: "4"}, "limits": {GPU: "4"}}}]},
        "status": {"phase": "Pending"},
    }))
}

impl ExternalPodsFixture {
    /// Creates a driver with one node of 8 GPUs and one queue for all namespaces.
    fn new() -> Self {
        let mut driver = driver();
        driver.external_pods.judgements.evaluates_inline = true;
        let context = driver.committer.context().clone();
        let sink = WatchSink::new(&context);
        context.cache.policies.replace(policies());
        let node: SlimNode = decoded(json!({
            "metadata": {"name": "n0", "uid": "n0"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}},
        }));
        sink.apply(Key::new("", "n0"), node);
        let fixture = Self { driver, sink };
        fixture.queue(
            "default",
            json!({"namespaceSelector": {}, "defaultFor": {}}),
        );
        fixture.namespace(json!({}));
        fixture
    }

    /// Adds or replaces a queue.
    fn queue(&self, name: &str, spec: Value) {
        let queue: TrainingQueue = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
            "metadata": {"name": name}, "spec": spec,
        }));
        self.sink.apply(Key::new("", name), queue);
    }

    /// Sets the labels of the namespace of all pods.
    fn namespace(&self, labels: Value) {
        let meta = json!({"name": "team-a", "uid": "team-a", "labels": labels});
        let namespace: SlimNamespace = decoded(json!({"metadata": meta}));
        self.sink.apply(Key::new("", "team-a"), namespace);
    }

    fn add_pod(&self, pod: SlimPod) {
        self.sink.apply(Key::from_meta(&pod.metadata), pod);
    }

    /// Handles pending events, and lets the engine decide.
    fn decide(&mut self) {
        let mut to_advance = BTreeSet::new();
        for event in self.driver.events.take_all() {
            self.driver.handle_event(event, &mut to_advance);
        }
        for unit in to_advance {
            self.driver.advance(&unit);
        }
        self.driver.decide();
    }

    /// Shows a pod that Trellis has bound, in the default queue.
    fn see_bound(&self, mut pod: SlimPod, more_annotations: &[(&str, &str)]) {
        pod.spec.node_name = Some("n0".to_owned());
        let mut annotations: Vec<(&str, &str)> = vec![("trellis.dev/placed-in", "default")];
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        if let Some(group) = labels.get("trellis.dev/pod-group") {
            annotations.push(("trellis.dev/placed-with", group));
        }
        annotations.extend(more_annotations);
        let annotations = annotations.into_iter();
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
        pod.metadata.annotations = Some(annotations.collect());
        self.add_pod(pod);
    }

    /// Adds a PodGroup whose gang of one pod is placed by this plan.
    fn add_placed_group(&self, plan: Value) {
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
        self.sink.apply(key("g"), decoded::<PodGroup>(group));
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
            .insert_observed(Key::new("", "limit"), policy);
        context.cache.quotas.invalidate();
    }

    fn engine_state(&self, unit: &Key) -> EngineState {
        self.driver.external_engine_state(unit)
    }

    /// Returns the last reason that was reported for a gang.
    fn written_reason(&self, unit: &Key) -> String {
        let conditions = &self.driver.external_pods.gangs[unit].conditions.written;
        conditions
            .values()
            .map(|condition| condition.reason_prefix.clone())
            .collect()
    }

    /// Like [`Self::decide`], but drops results of tasks, which fail without an API server.
    fn decide_without_task_results(&mut self) {
        let mut to_advance = BTreeSet::new();
        for event in self.driver.events.take_all() {
            if !matches!(
                event,
                SchedulerEvent::TaskEnded(..) | SchedulerEvent::ConditionsWritten(..)
            ) {
                self.driver.handle_event(event, &mut to_advance);
            }
        }
        while let Some(unit) = self.driver.alarms.take_due(Instant::now()) {
            to_advance.insert(unit);
        }
        for unit in to_advance {
            self.driver.advance(&unit);
        }
        self.driver.decide();
    }

    fn recheck(&mut self, unit: &Key) {
        let context = self.driver.committer.context().clone();
        context.send_event(SchedulerEvent::Recheck(unit.clone()));
        self.decide();
    }

    /// Returns the queue in which the engine counts the gang.
    fn charged_queue(&self, unit: &Key) -> Option<String> {
        let id = trellis_gang::engine::gang_id(unit);
        let gangs = self.driver.engine.snapshot().gangs;
        let snapshot = gangs.into_iter().find(|snapshot| snapshot.gang.id == id)?;
        let gang = snapshot.place.map_or(snapshot.gang, |place| place.gang);
        Some(gang.queue.as_str().to_owned())
    }

    /// Returns the GPUs that gangs hold, and that other pods use.
    fn used_gpus(&self) -> (i128, i128) {
        let totals = self.driver.engine.totals();
        let gpus = totals.get(&ResourceName::new(GPU));
        gpus.map_or((0, 0), |gpus| (gpus.placed_gangs, gpus.external_pods))
    }
}

#[tokio::test]
async fn pod_deleted_before_its_binding_leaves_no_state() {
    let mut fixture = ExternalPodsFixture::new();
    let unit = external::pod_gang_key(&key("p"));
    fixture.add_pod(pod("p", json!({})));
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (4, 0), "the pod has a place");
    assert!(fixture.driver.external_pods.pod_name(&key("p")).is_some());
    Sink::<SlimPod>::delete(fixture.sink.as_ref(), &key("p"), "p");
    fixture.decide();
    let refused = TaskOutcome::RollBack(Reason::PodRefused, "the pod is gone".to_owned());
    let context = fixture.driver.committer.context().clone();
    context.send_event(SchedulerEvent::TaskEnded(unit, refused));
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (0, 0));
    let external_pods = &fixture.driver.external_pods;
    assert!(
        external_pods.gangs.is_empty() && external_pods.pod_names.is_empty(),
        "{external_pods:?}"
    );
}

/// A pod changes while its gang is being bound, so the driver rechecks the pod.
#[tokio::test]
async fn recheck_of_a_pod_keeps_it_in_its_gang() {
    let mut fixture = ExternalPodsFixture::new();
    let group: PodGroup = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
        "spec": {"minMember": 2},
    }));
    fixture.sink.apply(key("g"), group);
    let group_label = json!({"trellis.dev/pod-group": "g"});
    for name in ["a", "b"] {
        fixture.add_pod(pod(name, group_label.clone()));
    }
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (8, 0));
    let engine_name = fixture.driver.external_pods.pod_name(&key("a")).cloned();
    assert!(engine_name.is_some());
    fixture.recheck(&external::pod_gang_key(&key("a")));
    assert_eq!(
        fixture.driver.external_pods.pod_name(&key("a")).cloned(),
        engine_name
    );
    // The watch shows the pod on its node. The engine counts the pod once.
    let mut bound = pod("a", group_label);
    bound.spec.node_name = Some("n0".to_owned());
    fixture.add_pod(bound);
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (8, 0));
}

/// A user has bound the pods to a node. Their labels name a queue and a PodGroup.
#[tokio::test]
async fn pod_bound_by_its_user_counts_as_foreign_usage() {
    let mut fixture = ExternalPodsFixture::new();
    for (name, labels) in [
        ("a", json!({"trellis.dev/queue": "default"})),
        ("b", json!({"trellis.dev/pod-group": "g"})),
    ] {
        let mut pod = pod(name, labels);
        pod.spec.node_name = Some("n0".to_owned());
        fixture.add_pod(pod);
    }
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (0, 8));
}

/// The annotations of a pod name its queue. Without its PodGroup, the pod counts alone.
#[tokio::test]
async fn bound_pod_counts_although_its_pod_group_is_gone() {
    let mut fixture = ExternalPodsFixture::new();
    for name in ["a", "b"] {
        fixture.see_bound(pod(name, json!({"trellis.dev/pod-group": "gone"})), &[]);
    }
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (8, 0));
    Sink::<SlimPod>::delete(fixture.sink.as_ref(), &key("a"), "a");
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (4, 0));
}

/// Without its PodGroup, a gang ends. Its pods can still be preempted one by one.
#[tokio::test]
async fn pods_hold_their_places_singly_after_pod_group_deletion() {
    let mut fixture = ExternalPodsFixture::new();
    let group: PodGroup = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
        "spec": {"minMember": 2},
        "status": {"phase": "Placed", "plan": {"hash": "p", "attempt": 1, "generation": 1,
            "queue": "default", "priority": 0, "compiled": "", "assignments": []}},
    }));
    fixture.sink.apply(key("g"), group);
    for name in ["a", "b"] {
        fixture.see_bound(pod(name, json!({"trellis.dev/pod-group": "g"})), &[]);
    }
    fixture.decide();
    let engine_states = |fixture: &ExternalPodsFixture| {
        let keys = [
            external::pod_group_gang_key(&key("g")),
            external::pod_gang_key(&key("a")),
        ];
        keys.map(|unit| fixture.driver.external_engine_state(&unit))
    };
    assert_eq!(fixture.used_gpus(), (8, 0));
    assert_eq!(
        engine_states(&fixture),
        [EngineState::Placed, EngineState::Absent]
    );
    Sink::<PodGroup>::delete(fixture.sink.as_ref(), &key("g"), "g");
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (8, 0));
    assert_eq!(
        engine_states(&fixture),
        [EngineState::Absent, EngineState::Placed]
    );
}

/// A limit on the ServiceAccount of one pod counts the whole gang, even if the first pod has
/// another account.
#[tokio::test]
async fn account_limit_applies_to_the_whole_gang() {
    let mut fixture = ExternalPodsFixture::new();
    let context = fixture.driver.committer.context().clone();
    let policy: trellis_api::QuotaPolicy = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy", "metadata": {"name": "limit"},
        "spec": {"subject": {"serviceAccountName": "limited"},
            "limits": {"resources": [{"resource": GPU, "max": 4}]}},
    }));
    context
        .cache
        .quotas
        .objects
        .insert_observed(Key::new("", "limit"), policy);
    context.cache.quotas.invalidate();
    let group = |name: &str| -> PodGroup {
        decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "team-a", "uid": name, "resourceVersion": "1"},
            "spec": {"minMember": 2},
        }))
    };
    let add_pod = |fixture: &ExternalPodsFixture, name: &str, group: &str, account: &str| {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "team-a", "uid": name,
                "labels": {"trellis.dev/pod-group": group}},
            "spec": {"schedulerName": "trellis", "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {GPU: "4"}, "limits": {GPU: "4"}}}]},
            "status": {"phase": "Pending"},
        });
        pod["spec"]["serviceAccountName"] = json!(account);
        fixture.add_pod(decoded(pod));
    };
    fixture.sink.apply(key("mixed"), group("mixed"));
    add_pod(&fixture, "a", "mixed", "free");
    add_pod(&fixture, "b", "mixed", "limited");
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (0, 0), "8 of 4");
    fixture.sink.apply(key("free"), group("free"));
    add_pod(&fixture, "c", "free", "free");
    add_pod(&fixture, "d", "free", "free");
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (8, 0));
}

#[tokio::test(start_paused = true)]
async fn refused_pod_is_rechecked_with_growing_pauses() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.add_pod(pod("p", json!({"trellis.dev/queue": "none"})));
    fixture.decide_without_task_results();
    let mut waits = Vec::new();
    for _ in 0..4 {
        let next = fixture.driver.alarms.next().unwrap();
        waits.push(next.saturating_duration_since(Instant::now()).as_secs());
        tokio::time::advance(next.saturating_duration_since(Instant::now())).await;
        fixture.decide_without_task_results();
    }
    assert_eq!(waits, [5, 10, 20, 20]);
}
