//! A single pod with victims, and successive pods with one name.

use trellis_api::pod_group::{NominatedVictim, VictimReason};

use super::*;

/// Returns a pod that fills the node and may have to leave.
pub(super) fn low() -> SlimPod {
    let mut low = pod("low", json!({}));
    low.spec.containers[0] = decoded(json!({"name": "c", "image": "i",
        "resources": {"requests": {GPU: "8"}, "limits": {GPU: "8"}}}));
    low
}

fn high() -> SlimPod {
    let mut high = pod("high", json!({}));
    high.spec.priority = Some(9);
    high
}

pub(super) fn victim() -> NominatedVictim {
    NominatedVictim {
        namespace: "team-a".to_owned(),
        name: "Pod/low".to_owned(),
        uid: "low".to_owned(),
        plan: "low".to_owned(),
        pod: None,
        because: VictimReason::LaterInQueue,
    }
}

impl ExternalPodsFixture {
    /// Creates a pod that fills the node, and a pod of higher priority that needs half of it.
    fn with_nominated_pod() -> Self {
        let mut scene = Self::new();
        let queue: TrainingQueue = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "default"},
            "spec": {"namespaceSelector": {}, "defaultFor": {},
                "preemption": {"withinClusterQueue": "LowerPriority"}},
        }));
        scene.sink.apply(Key::new("", "default"), queue);
        scene.see_bound(low(), &[]);
        scene.decide();
        scene.add_pod(high());
        scene.decide();
        scene
    }

    pub(super) fn end_task(&mut self, unit: &Key, outcome: TaskOutcome) {
        let context = self.driver.committer.context().clone();
        context.send_event(SchedulerEvent::TaskEnded(unit.clone(), outcome));
        self.decide();
    }

    pub(super) fn has_task(&self, unit: &Key) -> bool {
        let state = &self.driver.external_pods.gangs[unit];
        state.task.is_some()
    }
}

/// If each step checked again, the operator would read budgets from the API server until the victim
/// has stopped.
#[tokio::test]
async fn nominated_place_stays_until_the_victims_have_left() {
    let mut scene = ExternalPodsFixture::with_nominated_pod();
    let (low_unit, unit) = (
        external::pod_gang_key(&key("low")),
        external::pod_gang_key(&key("high")),
    );
    assert_eq!(scene.engine_state(&unit), EngineState::Nominated);
    assert!(scene.has_task(&unit), "budgets are asked");
    scene.end_task(&unit, TaskOutcome::Nominated(vec![victim()]));
    let place = scene.driver.external_pods.gangs[&unit].place_number;
    for _ in 0..3 {
        assert_eq!(scene.engine_state(&unit), EngineState::Nominated);
        assert!(!scene.has_task(&unit), "it has been asked");
        assert_eq!(scene.driver.external_pods.gangs[&unit].place_number, place);
        scene.recheck(&unit);
    }
    assert!(scene.has_task(&low_unit), "it is evicted");
    // The policies have changed. They judge the pod again, and the pod keeps its place.
    scene.limit(json!({"resources": [{"resource": GPU, "max": 100}]}));
    scene.recheck(&unit);
    assert!(scene.engine_state(&unit) == EngineState::Nominated && !scene.has_task(&unit));
    Sink::<SlimPod>::delete(scene.sink.as_ref(), &key("low"), "low");
    scene.end_task(&low_unit, TaskOutcome::Done);
    assert_eq!(scene.engine_state(&unit), EngineState::Placed);
    assert!(scene.has_task(&unit), "it is bound");
    assert_eq!(scene.used_gpus(), (4, 0));
}

/// The nomination was withdrawn while the budgets were read, so no victim was asked to leave.
#[tokio::test]
async fn withdrawn_nomination_makes_the_pod_seek_a_place_again() {
    let mut scene = ExternalPodsFixture::with_nominated_pod();
    let unit = external::pod_gang_key(&key("high"));
    scene.end_task(&unit, TaskOutcome::Done);
    assert_eq!(scene.engine_state(&unit), EngineState::Nominated);
    assert!(scene.has_task(&unit), "budgets are asked");
}

/// A new policy now refuses the pod.
#[tokio::test]
async fn pod_refused_by_a_new_limit_evicts_no_victim() {
    let mut scene = ExternalPodsFixture::with_nominated_pod();
    let (low_unit, unit) = (
        external::pod_gang_key(&key("low")),
        external::pod_gang_key(&key("high")),
    );
    scene.limit(json!({"gpusPerJob": 1}));
    scene.end_task(&unit, TaskOutcome::Done);
    assert_eq!(scene.engine_state(&unit), EngineState::Absent);
    assert!(!scene.has_task(&low_unit));
    assert_eq!(scene.used_gpus(), (8, 0));
}

#[tokio::test]
async fn new_pod_of_the_same_name_inherits_no_state() {
    let mut scene = ExternalPodsFixture::with_nominated_pod();
    let (low_unit, unit) = (
        external::pod_gang_key(&key("low")),
        external::pod_gang_key(&key("high")),
    );
    scene.end_task(&unit, TaskOutcome::Nominated(vec![victim()]));
    scene.end_task(&low_unit, TaskOutcome::Done);
    let state = scene.driver.external_pods.gangs.get_mut(&low_unit);
    state.unwrap().failures = 3;
    // Another pod with this name exists. It was bound before the watch showed the first pod's
    // deletion.
    let mut next = low();
    next.metadata.uid = Some("another".to_owned());
    scene.see_bound(next, &[]);
    scene.decide();
    let state = &scene.driver.external_pods.gangs[&low_unit];
    assert_eq!((state.failures, &*state.allocations[0].uid), (0, "another"));
    assert!(!scene.has_task(&low_unit), "nobody has asked it to leave");
    assert_ne!(scene.engine_state(&unit), EngineState::Placed);
}

/// The gang is rolled back before the watch has shown the bound pods.
#[tokio::test]
async fn bound_pod_holds_its_node_before_the_watch_shows_it() {
    let mut scene = ExternalPodsFixture::new();
    let group = |status: Value| -> PodGroup {
        decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": 2}, "status": status,
        }))
    };
    scene.sink.apply(key("g"), group(json!({})));
    for name in ["a", "b"] {
        scene.add_pod(pod(name, json!({"trellis.dev/pod-group": "g"})));
    }
    scene.decide();
    assert_eq!(scene.used_gpus(), (8, 0));
    let unit = external::pod_group_gang_key(&key("g"));
    let by = trellis_gang::observed::BindingAnnotations {
        plan: "p",
        queue: "default",
        placed_with: Some("g"),
        flavors: &trellis_gang::observed::FlavorsByResource::new(),
    };
    let bound = trellis_api::pod_group::PlannedPod {
        name: "a".to_owned(),
        uid: "a".to_owned(),
    };
    let committer = scene.driver.committer.clone();
    committer.record_bound_pod(&unit, &key("a"), &bound, "n0", by);
    let undone = json!({"phase": "Unwinding", "reason": "PodRefused", "plan": {"hash": "p",
        "attempt": 1, "generation": 1, "queue": "default", "compiled": "", "assignments": [
            {"group": "g0", "node": "n0", "count": 2, "pods": [
                {"name": "a", "uid": "a"}, {"name": "b", "uid": "b"}]}]}});
    scene.sink.apply(key("g"), group(undone));
    scene.end_task(&unit, TaskOutcome::Done);
    let (held, others) = scene.used_gpus();
    assert_eq!(held + others, 4, "it is on its node");
}
