//! A pod alone for which others leave, and pods of one name after each other.

use trellis_api::pod_group::{Because, NominatedVictim};

use super::*;

/// It holds all of the node, and may have to leave.
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
        because: Because::LaterInQueue,
    }
}

impl Scene {
    /// One has all of the node, and another with a higher priority wants half of it.
    fn full() -> Self {
        let mut scene = Self::new();
        let queue: TrainingQueue = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "default"},
            "spec": {"namespaceSelector": {}, "defaultFor": {},
                "preemption": {"withinClusterQueue": "LowerPriority"}},
        }));
        scene.watched.apply(Key::new("", "default"), queue);
        scene.see_bound(low(), &[]);
        scene.decide();
        scene.see(high());
        scene.decide();
        scene
    }

    pub(super) fn ends(&mut self, unit: &Key, outcome: Outcome) {
        let context = self.driver.committer.context().clone();
        context.tell(Feed::Ended(unit.clone(), outcome));
        self.decide();
    }

    pub(super) fn is_busy(&self, unit: &Key) -> bool {
        let state = &self.driver.external_pods.gangs[unit];
        state.task.is_some()
    }
}

/// If each look asked again, the API server would be asked for budgets until the victim has
/// stopped.
#[tokio::test]
async fn its_place_is_kept_until_they_have_left() {
    let mut scene = Scene::full();
    let (low_unit, unit) = (
        external::of_pod(&key("low")),
        external::of_pod(&key("high")),
    );
    assert_eq!(scene.inside(&unit), Inside::Nominated);
    assert!(scene.is_busy(&unit), "budgets are asked");
    scene.ends(&unit, Outcome::Nominated(vec![victim()]));
    let place = scene.driver.external_pods.gangs[&unit].place;
    for _ in 0..3 {
        assert_eq!(scene.inside(&unit), Inside::Nominated);
        assert!(!scene.is_busy(&unit), "it has been asked");
        assert_eq!(scene.driver.external_pods.gangs[&unit].place, place);
        scene.look(&unit);
    }
    assert!(scene.is_busy(&low_unit), "it is evicted");
    // Policies are others by now: they are asked, and the place stays its own.
    scene.limit(json!({"resources": [{"resource": GPU, "max": 100}]}));
    scene.look(&unit);
    assert!(scene.inside(&unit) == Inside::Nominated && !scene.is_busy(&unit));
    Sink::<SlimPod>::delete(scene.watched.as_ref(), &key("low"), "low");
    scene.ends(&low_unit, Outcome::Done);
    assert_eq!(scene.inside(&unit), Inside::Placed);
    assert!(scene.is_busy(&unit), "it is bound");
    assert_eq!(scene.used(), (4, 0));
}

/// The nomination was withdrawn while the budgets were read, so no victim was asked to leave.
#[tokio::test]
async fn a_place_that_nobody_was_told_of_is_sought_anew() {
    let mut scene = Scene::full();
    let unit = external::of_pod(&key("high"));
    scene.ends(&unit, Outcome::Done);
    assert_eq!(scene.inside(&unit), Inside::Nominated);
    assert!(scene.is_busy(&unit), "budgets are asked");
}

/// A new policy refuses the pod meanwhile.
#[tokio::test]
async fn who_is_let_in_no_more_makes_nobody_leave() {
    let mut scene = Scene::full();
    let (low_unit, unit) = (
        external::of_pod(&key("low")),
        external::of_pod(&key("high")),
    );
    scene.limit(json!({"gpusPerJob": 1}));
    scene.ends(&unit, Outcome::Done);
    assert_eq!(scene.inside(&unit), Inside::No);
    assert!(!scene.is_busy(&low_unit));
    assert_eq!(scene.used(), (8, 0));
}

#[tokio::test]
async fn of_another_pod_of_that_name_nothing_is_known() {
    let mut scene = Scene::full();
    let (low_unit, unit) = (
        external::of_pod(&key("low")),
        external::of_pod(&key("high")),
    );
    scene.ends(&unit, Outcome::Nominated(vec![victim()]));
    scene.ends(&low_unit, Outcome::Done);
    let state = scene.driver.external_pods.gangs.get_mut(&low_unit);
    state.unwrap().failures = 3;
    // Another of that name is there, which somebody has bound before we saw the first one go.
    let mut next = low();
    next.metadata.uid = Some("another".to_owned());
    scene.see_bound(next, &[]);
    scene.decide();
    let state = &scene.driver.external_pods.gangs[&low_unit];
    assert_eq!((state.failures, &*state.held[0].uid), (0, "another"));
    assert!(!scene.is_busy(&low_unit), "nobody has asked it to leave");
    assert_ne!(scene.inside(&unit), Inside::Placed);
}

/// The gang is undone before the watch has shown what was bound.
#[tokio::test]
async fn what_an_answer_says_is_bound_holds_its_node() {
    let mut scene = Scene::new();
    let group = |status: Value| -> PodGroup {
        decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": 2}, "status": status,
        }))
    };
    scene.watched.apply(key("g"), group(json!({})));
    for name in ["a", "b"] {
        scene.see(pod(name, json!({"trellis.dev/pod-group": "g"})));
    }
    scene.decide();
    assert_eq!(scene.used(), (8, 0));
    let unit = external::of_group(&key("g"));
    let by = trellis_gang::observed::BoundBy {
        plan: "p",
        queue: "default",
        with: Some("g"),
        flavors: &trellis_gang::observed::Flavors::new(),
    };
    let bound = trellis_api::pod_group::PlannedPod {
        name: "a".to_owned(),
        uid: "a".to_owned(),
    };
    let committer = scene.driver.committer.clone();
    committer.seen_bound(&unit, &key("a"), &bound, "n0", by);
    let undone = json!({"phase": "Unwinding", "reason": "PodRefused", "plan": {"hash": "p",
        "attempt": 1, "generation": 1, "queue": "default", "compiled": "", "assignments": [
            {"group": "g0", "node": "n0", "count": 2, "pods": [
                {"name": "a", "uid": "a"}, {"name": "b", "uid": "b"}]}]}});
    scene.watched.apply(key("g"), group(undone));
    scene.ends(&unit, Outcome::Done);
    let (held, others) = scene.used();
    assert_eq!(held + others, 4, "it is on its node");
}
