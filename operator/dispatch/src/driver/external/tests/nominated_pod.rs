//! A nominated single pod with its victims, and successive pods of one name.

use trellis_api::pod_group::{NominatedVictim, VictimReason};

use super::*;

/// Returns a pod that fills the node and may be preempted.
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
        pods: None,
        because: VictimReason::LaterInQueue,
    }
}

/// Returns the spec of the default queue, whose pods preempt pods of lower priority.
pub(super) fn preempting_queue() -> Value {
    json!({"namespaceSelector": {}, "defaultFor": {},
        "preemption": {"withinClusterQueue": "LowerPriority"}})
}

impl ExternalPodsFixture {
    /// Creates a pod that fills the node, and a pod of higher priority that needs half of it.
    fn with_nominated_pod() -> Self {
        let mut fixture = Self::new();
        fixture.queue("default", preempting_queue());
        fixture.see_bound(low(), &[]);
        fixture.decide();
        fixture.add_pod(high());
        fixture.decide();
        fixture
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

/// The driver reads the disruption budgets once. It does not read them again in each step until the
/// victim has stopped.
#[tokio::test]
async fn nominated_place_stays_until_the_victims_have_left() {
    let mut fixture = ExternalPodsFixture::with_nominated_pod();
    let (low_unit, unit) = (
        external::pod_gang_key(&key("low")),
        external::pod_gang_key(&key("high")),
    );
    assert_eq!(fixture.engine_state(&unit), EngineState::Nominated);
    assert!(fixture.has_task(&unit), "a task reads the budgets");
    fixture.end_task(&unit, TaskOutcome::Nominated(vec![victim()]));
    let place = fixture.driver.external_pods.gangs[&unit].place_number;
    for _ in 0..3 {
        assert_eq!(fixture.engine_state(&unit), EngineState::Nominated);
        assert!(!fixture.has_task(&unit), "the budgets are known");
        assert_eq!(
            fixture.driver.external_pods.gangs[&unit].place_number,
            place
        );
        fixture.recheck(&unit);
    }
    assert!(fixture.has_task(&low_unit), "the victim is evicted");
    // The policies have changed, and are evaluated again. The pod keeps its nomination.
    fixture.limit(json!({"resources": [{"resource": GPU, "max": 100}]}));
    fixture.recheck(&unit);
    assert!(fixture.engine_state(&unit) == EngineState::Nominated && !fixture.has_task(&unit));
    Sink::<SlimPod>::delete(fixture.sink.as_ref(), &key("low"), "low");
    fixture.end_task(&low_unit, TaskOutcome::Done);
    assert_eq!(fixture.engine_state(&unit), EngineState::Placed);
    assert!(fixture.has_task(&unit), "the pod is bound");
    assert_eq!(fixture.used_gpus(), (4, 0));
}

/// The nomination was withdrawn while the task read the budgets, so no victim was evicted.
#[tokio::test]
async fn withdrawn_nomination_makes_the_pod_seek_a_place_again() {
    let mut fixture = ExternalPodsFixture::with_nominated_pod();
    let unit = external::pod_gang_key(&key("high"));
    fixture.end_task(&unit, TaskOutcome::Done);
    assert_eq!(fixture.engine_state(&unit), EngineState::Nominated);
    assert!(fixture.has_task(&unit), "a task reads the budgets");
}

/// A new QuotaPolicy refuses the pod.
#[tokio::test]
async fn pod_refused_by_a_new_limit_evicts_no_victim() {
    let mut fixture = ExternalPodsFixture::with_nominated_pod();
    let (low_unit, unit) = (
        external::pod_gang_key(&key("low")),
        external::pod_gang_key(&key("high")),
    );
    fixture.limit(json!({"gpusPerJob": 1}));
    fixture.end_task(&unit, TaskOutcome::Done);
    assert_eq!(fixture.engine_state(&unit), EngineState::Absent);
    assert!(!fixture.has_task(&low_unit));
    assert_eq!(fixture.used_gpus(), (8, 0));
}

#[tokio::test]
async fn new_pod_of_the_same_name_inherits_no_state() {
    let mut fixture = ExternalPodsFixture::with_nominated_pod();
    let (low_unit, unit) = (
        external::pod_gang_key(&key("low")),
        external::pod_gang_key(&key("high")),
    );
    fixture.end_task(&unit, TaskOutcome::Nominated(vec![victim()]));
    fixture.end_task(&low_unit, TaskOutcome::Done);
    let state = fixture.driver.external_pods.gangs.get_mut(&low_unit);
    state.unwrap().failures = 3;
    // A new pod of this name was bound before the watch showed the deletion of the first pod.
    let mut new_pod = low();
    new_pod.metadata.uid = Some("another".to_owned());
    fixture.see_bound(new_pod, &[]);
    fixture.decide();
    let state = &fixture.driver.external_pods.gangs[&low_unit];
    assert_eq!((state.failures, &*state.allocations[0].uid), (0, "another"));
    assert!(!fixture.has_task(&low_unit), "the new pod is no victim");
    assert_ne!(fixture.engine_state(&unit), EngineState::Placed);
}

/// The gang is rolled back before the watch has shown the bound pods.
#[tokio::test]
async fn bound_pod_holds_its_node_before_the_watch_shows_it() {
    let mut fixture = ExternalPodsFixture::new();
    let group = |status: Value| -> PodGroup {
        decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": 2}, "status": status,
        }))
    };
    fixture.sink.apply(key("g"), group(json!({})));
    for name in ["a", "b"] {
        fixture.add_pod(pod(name, json!({"trellis.dev/pod-group": "g"})));
    }
    fixture.decide();
    assert_eq!(fixture.used_gpus(), (8, 0));
    let unit = external::pod_group_gang_key(&key("g"));
    let annotations = trellis_gang::observed::BindingAnnotations {
        plan: "p",
        queue: "default",
        placed_with: Some("g"),
        flavors: &trellis_gang::observed::FlavorsByResource::new(),
    };
    let bound = trellis_api::pod_group::PlannedPod {
        name: "a".to_owned(),
        uid: "a".to_owned(),
    };
    let committer = fixture.driver.committer.clone();
    committer.record_bound_pod(&unit, &key("a"), &bound, "n0", annotations);
    let rolled_back = json!({"phase": "Unwinding", "reason": "PodRefused", "plan": {"hash": "p",
        "attempt": 1, "generation": 1, "queue": "default", "compiled": "", "assignments": [
            {"group": "g0", "node": "n0", "count": 2, "pods": [
                {"name": "a", "uid": "a"}, {"name": "b", "uid": "b"}]}]}});
    fixture.sink.apply(key("g"), group(rolled_back));
    fixture.end_task(&unit, TaskOutcome::Done);
    let (gang_gpus, other_gpus) = fixture.used_gpus();
    assert_eq!(gang_gpus + other_gpus, 4, "pod a holds its node");
}
