use std::cell::Cell;

use serde_json::{Value, json};
use trellis_gang::observed::{FlavorsByResource, PodView};

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
fn apply_observed(
    index: &ExternalPodIndex,
    pod: &SlimPod,
) -> Option<[Option<Arc<ExternalPod>>; 2]> {
    index.apply(&key(), pod, |_, _| true)
}

#[test]
fn external_pod_uses_trellis_and_belongs_to_no_job() {
    let external = ExternalPod::from_pod(&pod("u", json!({}))).unwrap();
    assert_eq!(external.group(), Some("g"));
    assert_eq!(
        external.scheduling_gates().collect::<Vec<_>>(),
        ["example.com/wait"]
    );
    assert_eq!((external.priority, external.grace), (7, 30));
    assert!(external.is_waiting() && !external.is_bound());
    let other = json!({"/spec/schedulerName": "default-scheduler"});
    assert_eq!(ExternalPod::from_pod(&pod("u", other)), None);
    let owned = json!({"/metadata": {"name": "p", "namespace": "ns", "uid": "u", "ownerReferences": [
        {"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j", "uid": "j", "controller": true}]}});
    assert_eq!(ExternalPod::from_pod(&pod("u", owned)), None);
    let broken = json!({"/spec/schedulingGates": [{"name": 5}]});
    let broken = ExternalPod::from_pod(&pod("u", broken)).unwrap();
    assert!(
        matches!(broken.spec, Some(Err(_))),
        "it is told, and not placed"
    );
}

/// A user may set a TrainingJob of another manager as the controller of a pod.
#[test]
fn bound_external_pod_stays_external_with_any_controller() {
    let bound = json!({"/metadata": {"name": "p", "namespace": "ns", "uid": "u",
        "annotations": {"trellis.dev/placed-in": "q"}, "ownerReferences": [
        {"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j", "uid": "j", "controller": true}]}});
    let mut bound = pod("u", bound);
    bound.spec.node_name = Some("n".to_owned());
    assert_eq!(PodView::from_pod(&bound), None);
    let external = ExternalPod::from_pod(&bound).unwrap();
    assert_eq!(external.charged_queue(), Some("q"));
}

#[test]
fn late_watch_does_not_revert_a_binding() {
    let index = ExternalPodIndex::default();
    let group = Key::new("ns", "g");
    assert!(apply_observed(&index, &pod("u", json!({}))).is_some());
    assert!(
        apply_observed(&index, &pod("u", json!({}))).is_none(),
        "nothing is another"
    );
    let annotations = BindingAnnotations {
        plan: "plan",
        queue: "queue",
        placed_with: None,
        flavors: &FlavorsByResource::from([("gpu".to_owned(), "spot".to_owned())]),
    };
    let condition = Cell::new(0);
    let bound = |uid: &str| {
        index.record_binding(&key(), uid, "n", annotations, |_| {
            condition.set(condition.get() + 1)
        })
    };
    bound("another");
    assert_eq!(condition.get(), 0, "it is gone");
    bound("u");
    bound("u");
    assert_eq!(condition.get(), 1, "it is known by then");
    let listed = |uid: &str| pod(uid, json!({}));
    assert!(index.has_unobserved_binding(&key(), &listed("u")));
    assert!(!index.has_unobserved_binding(&key(), &listed("another")));
    index.mark_deleting(&key(), "another");
    let late = apply_observed(&index, &pod("u", json!({"/spec/priority": 8})));
    let [_, now] = late.unwrap();
    let now = now.unwrap();
    assert_eq!(
        (now.node.as_deref(), now.plan.as_deref()),
        (Some("n"), Some("plan"))
    );
    assert!(!now.deleting && now.is_bound());
    assert_eq!(now.charged_queue(), Some("queue"));
    assert_eq!(now.flavors["gpu"], "spot");
    assert_eq!(index.pods_of_group(&group).len(), 1);
    // A later pod with the same name is a different pod.
    let [_, next] = apply_observed(&index, &pod("v", json!({}))).unwrap();
    assert!(next.unwrap().is_waiting());
    assert!(index.delete(&key(), "u").is_none());
    assert!(index.delete(&key(), "v").is_some());
    assert!(index.pods_of_group(&group).is_empty());
}

#[test]
fn pod_moves_to_the_group_of_its_new_label() {
    let index = ExternalPodIndex::default();
    apply_observed(&index, &pod("u", json!({})));
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
    assert!(index.pods_of_group(&Key::new("ns", "g")).is_empty());
    assert_eq!(index.pods_of_group(&Key::new("ns", "h")).len(), 1);
}

#[test]
fn scheduling_condition_is_stored_without_a_change() {
    let index = ExternalPodIndex::default();
    let pod = |phase: &str, condition: &str| -> SlimPod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"schedulerName": "trellis"},
            "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": condition}]},
        }))
        .unwrap()
    };
    assert!(apply_observed(&index, &pod("Pending", "one")).is_some());
    assert!(apply_observed(&index, &pod("Pending", "two")).is_none());
    let condition = index.get(&key()).unwrap().unscheduled_condition.clone();
    assert_eq!(
        condition.map(|(_, message)| message).as_deref(),
        Some("two")
    );
    assert!(apply_observed(&index, &pod("Running", "three")).is_some());
}
