use std::cell::Cell;

use serde_json::{Value, json};
use trellis_gang::observed::{Flavors, PodView};

use super::*;

fn pod(uid: &str, more: Value) -> SlimPod {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": uid, "labels": {"trellis.dev/pod-group": "g"}},
        "spec": {
            "schedulerName": "trellis", "priority": 7,
            "schedulingGates": [{"name": "example.com/wait"}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
        },
    });
    for (path, value) in more.as_object().unwrap() {
        *pod.pointer_mut(path).unwrap() = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn key() -> Key {
    Key::new("ns", "p")
}

/// Applies the pod as the watch shows it, in a cluster where users cannot write the queue
/// annotations.
fn see(index: &ExternalPodIndex, pod: &SlimPod) -> Option<[Option<Arc<ExternalPod>>; 2]> {
    index.apply(&key(), pod, |_, _| true)
}

#[test]
fn an_external_pod_names_trellis_and_is_no_jobs() {
    let external = ExternalPod::of(&pod("u", json!({}))).unwrap();
    assert_eq!(external.group(), Some("g"));
    assert_eq!(external.gates().collect::<Vec<_>>(), ["example.com/wait"]);
    assert_eq!((external.priority, external.grace), (7, 30));
    assert!(external.waits() && !external.is_bound());
    let other = json!({"/spec/schedulerName": "default-scheduler"});
    assert_eq!(ExternalPod::of(&pod("u", other)), None);
    let owned = json!({"/metadata": {"name": "p", "namespace": "ns", "uid": "u", "ownerReferences": [
        {"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j", "uid": "j", "controller": true}]}});
    assert_eq!(ExternalPod::of(&pod("u", owned)), None);
    let broken = json!({"/spec/schedulingGates": [{"name": 5}]});
    let broken = ExternalPod::of(&pod("u", broken)).unwrap();
    assert!(
        matches!(broken.spec, Some(Err(_))),
        "it is told, and not placed"
    );
}

/// A user may set a TrainingJob of another manager as the controller of a pod.
#[test]
fn external_pod_that_trellis_has_bound_stays_one_whatever_controls_it() {
    let bound = json!({"/metadata": {"name": "p", "namespace": "ns", "uid": "u",
        "annotations": {"trellis.dev/placed-in": "q"}, "ownerReferences": [
        {"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j", "uid": "j", "controller": true}]}});
    let mut bound = pod("u", bound);
    bound.spec.node_name = Some("n".to_owned());
    assert_eq!(PodView::of(&bound), None);
    let external = ExternalPod::of(&bound).unwrap();
    assert_eq!(external.counts_in(), Some("q"));
}

#[test]
fn what_an_answer_has_said_is_not_taken_back_by_a_late_watch() {
    let index = ExternalPodIndex::default();
    let group = Key::new("ns", "g");
    assert!(see(&index, &pod("u", json!({}))).is_some());
    assert!(
        see(&index, &pod("u", json!({}))).is_none(),
        "nothing is another"
    );
    let by = BoundBy {
        plan: "plan",
        queue: "queue",
        with: None,
        flavors: &Flavors::from([("gpu".to_owned(), "spot".to_owned())]),
    };
    let told = Cell::new(0);
    let bound = |uid: &str| index.bound(&key(), uid, "n", by, |_| told.set(told.get() + 1));
    bound("another");
    assert_eq!(told.get(), 0, "it is gone");
    bound("u");
    bound("u");
    assert_eq!(told.get(), 1, "it is known by then");
    let shown = |uid: &str| pod(uid, json!({}));
    assert!(index.is_bound_since(&key(), &shown("u")));
    assert!(!index.is_bound_since(&key(), &shown("another")));
    index.deleting(&key(), "another");
    let late = see(&index, &pod("u", json!({"/spec/priority": 8})));
    let [_, now] = late.unwrap();
    let now = now.unwrap();
    assert_eq!(
        (now.node.as_deref(), now.plan.as_deref()),
        (Some("n"), Some("plan"))
    );
    assert!(!now.deleting && now.is_bound());
    assert_eq!(now.counts_in(), Some("queue"));
    assert_eq!(now.flavors["gpu"], "spot");
    assert_eq!(index.of_group(&group).len(), 1);
    // A later pod of the same name is another pod.
    let [_, next] = see(&index, &pod("v", json!({}))).unwrap();
    assert!(next.unwrap().waits());
    assert!(index.delete(&key(), "u").is_none());
    assert!(index.delete(&key(), "v").is_some());
    assert!(index.of_group(&group).is_empty());
}

#[test]
fn a_pod_that_leaves_its_group_is_in_it_no_more() {
    let index = ExternalPodIndex::default();
    see(&index, &pod("u", json!({})));
    let [before, now] = index
        .apply(
            &key(),
            &pod(
                "u",
                json!({"/metadata/labels": {"trellis.dev/pod-group": "h"}}),
            ),
            |_, _| true,
        )
        .unwrap();
    assert_eq!(before.unwrap().group(), Some("g"));
    assert_eq!(now.unwrap().group(), Some("h"));
    assert!(index.of_group(&Key::new("ns", "g")).is_empty());
    assert_eq!(index.of_group(&Key::new("ns", "h")).len(), 1);
}

#[test]
fn what_a_pod_was_told_is_kept_and_no_news() {
    let index = ExternalPodIndex::default();
    let pod = |phase: &str, told: &str| -> SlimPod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"schedulerName": "trellis"},
            "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": told}]},
        }))
        .unwrap()
    };
    assert!(see(&index, &pod("Pending", "one")).is_some());
    assert!(see(&index, &pod("Pending", "two")).is_none());
    let told = index.get(&key()).unwrap().told.clone();
    assert_eq!(told.map(|(_, message)| message).as_deref(), Some("two"));
    assert!(see(&index, &pod("Running", "three")).is_some());
}
