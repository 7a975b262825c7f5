use serde_json::Value;
use trellis_gang::fixtures::Shelf;
use trellis_gang::observed::SlimPod;

use super::*;

const NOW: &str = "pod-now";

/// The pod "j-w-0" on node "n", and what is to be done about its claim.
fn looked(shelf: &Shelf, phase: &str) -> (Option<(Obstacle, String)>, usize) {
    let pod: SlimPod = serde_json::from_value(json!({
        "metadata": {"name": "j-w-0", "namespace": "a", "uid": NOW,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {names::JOB: "j", names::JOB_UID: "u", names::GROUP: "w", names::INDEX: "0", names::ATTEMPT: "1"},
            "annotations": {names::PLAN: "plan"},
            "ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j", "uid": "u", "controller": true}]},
        "spec": {"nodeName": "n", "containers": [{"name": "main"}]},
        "status": {"phase": phase},
    }))
    .unwrap();
    let (_, view) = PodView::of(&pod).unwrap();
    let pods: Pods = [("j-w-0".to_owned(), view)].into();
    let own = [
        ("w".to_owned(), "scratch".to_owned()),
        ("other".to_owned(), "x".to_owned()),
    ];
    let (pods, asks) = look(shelf, "u", &own, Arc::new(pods));
    let stuck = pods["j-w-0"].stuck.as_ref();
    let stuck = stuck.map(|stuck| {
        assert_eq!(stuck.container, "j-w-0-scratch");
        assert!(stuck.since.is_some());
        (stuck.obstacle, stuck.message.clone())
    });
    (stuck, asks.len())
}

fn shelf(mode: &str) -> Shelf {
    Shelf::default().with_class(json!({"metadata": {"name": "fast"},
        "provisioner": "disks.example", "volumeBindingMode": mode}))
}

fn late() -> Shelf {
    shelf("WaitForFirstConsumer")
}

/// The pod's claim; `more` is merged over it, one level deep.
fn claim(pod_uid: &str, more: Value) -> Value {
    let mut claim = json!({
        "metadata": {"name": "j-w-0-scratch", "namespace": "a", "uid": "c", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "j-w-0", "uid": pod_uid, "controller": true}]},
        "spec": {"storageClassName": "fast"},
        "status": {"phase": "Pending"},
    });
    for (part, fields) in more.as_object().unwrap() {
        for (field, value) in fields.as_object().unwrap() {
            claim[part][field] = value.clone();
        }
    }
    claim
}

#[test]
fn a_claim_is_told_where_its_pod_is_once_it_is_there() {
    let waits = |shelf: Shelf| {
        let (stuck, asks) = looked(&shelf, "Pending");
        let (obstacle, words) = stuck.unwrap();
        assert_eq!(obstacle, Obstacle::Claim, "{words}");
        asks
    };
    assert_eq!(waits(late()), 0, "it is not made yet");
    assert_eq!(waits(late().with_claim(claim(NOW, json!({})))), 1);
    // A claim of the previous pod goes with that pod, bound or not.
    for phase in ["Bound", "Pending"] {
        let old = claim(
            "pod-before",
            json!({"status": {"phase": phase}, "spec": {"volumeName": "v"}}),
        );
        assert_eq!(waits(late().with_claim(old)), 0);
    }
    let selected = |node: &str| json!({"metadata": {"annotations": {SELECTED_NODE: node, names::PLAN: "plan"}}});
    assert_eq!(waits(late().with_claim(claim(NOW, selected("n")))), 0);
    // The claim names another node, on which the pod is not.
    assert_eq!(waits(late().with_claim(claim(NOW, selected("m")))), 1);
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(waits(late().with_claim(claim(NOW, going))), 0);
    // A class that binds immediately needs no node.
    assert_eq!(
        waits(shelf("Immediate").with_claim(claim(NOW, json!({})))),
        0
    );
}

#[test]
fn a_claim_that_comes_to_nothing_is_told_at_once() {
    let mut strange = claim(NOW, json!({}));
    strange["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    let refused = json!({"metadata": {"annotations": {names::PLAN: "plan"}}});
    let bound = json!({"status": {"phase": "Bound"}, "spec": {"volumeName": "v"}});
    let volume = |node: &str| {
        json!({"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}}})
    };
    for (shelf, words) in [
        (late().with_claim(strange), "is somebody else's"),
        (
            late().with_claim(claim(NOW, refused)),
            "could not be provisioned for node \"n\"",
        ),
        (
            late().with_claim(claim(
                NOW,
                json!({"status": {"phase": "Lost"}, "spec": {"volumeName": "v"}}),
            )),
            "has lost its volume \"v\"",
        ),
        (
            shelf("Immediate")
                .with_claim(claim(NOW, bound.clone()))
                .with_volume(volume("m")),
            "which node \"n\" does not reach",
        ),
    ] {
        let (stuck, asks) = looked(&shelf, "Pending");
        let (obstacle, said) = stuck.unwrap();
        assert_eq!((obstacle, asks), (Obstacle::Volume, 0), "{said}");
        assert!(said.contains(words), "{said}");
    }
    let here = late()
        .with_claim(claim(NOW, bound))
        .with_volume(volume("n"));
    assert_eq!(looked(&here, "Pending"), (None, 0));
    // A running pod has its volumes.
    assert_eq!(looked(&late(), "Running"), (None, 0));
    // Refused under an earlier plan: the current plan asks again.
    let before = json!({"metadata": {"annotations": {names::PLAN: "before"}}});
    let (stuck, asks) = looked(&late().with_claim(claim(NOW, before)), "Pending");
    assert_eq!((stuck.unwrap().0, asks), (Obstacle::Claim, 1));
}
