use serde_json::Value;
use trellis_gang::fixtures::FakeStorage;
use trellis_gang::observed::SlimPod;

use super::*;

const POD_UID: &str = "pod-now";

/// The pod "j-w-0" on node "n", and what is to be done about its claim.
fn check_pod(shelf: &FakeStorage, phase: &str) -> (Option<(StartObstacleKind, String)>, usize) {
    let pod: SlimPod = serde_json::from_value(json!({
        "metadata": {"name": "j-w-0", "namespace": "a", "uid": POD_UID,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {names::JOB: "j", names::JOB_UID: "u", names::GROUP: "w", names::INDEX: "0", names::ATTEMPT: "1"},
            "annotations": {names::PLAN: "plan"},
            "ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j", "uid": "u", "controller": true}]},
        "spec": {"nodeName": "n", "containers": [{"name": "main"}]},
        "status": {"phase": phase},
    }))
    .unwrap();
    let (_, view) = PodView::from_pod(&pod).unwrap();
    let pods: JobPods = [("j-w-0".to_owned(), view)].into();
    let own = [
        ("w".to_owned(), "scratch".to_owned()),
        ("other".to_owned(), "x".to_owned()),
    ];
    let (pods, asks) = check_claims(shelf, "u", &own, Arc::new(pods));
    let stuck = pods["j-w-0"].start_obstacle.as_ref();
    let stuck = stuck.map(|stuck| {
        assert_eq!(stuck.container, "j-w-0-scratch");
        assert!(stuck.since.is_some());
        (stuck.kind, stuck.message.clone())
    });
    (stuck, asks.len())
}

fn storage_with_mode(mode: &str) -> FakeStorage {
    FakeStorage::default().with_class(json!({"metadata": {"name": "fast"},
        "provisioner": "disks.example", "volumeBindingMode": mode}))
}

fn late_binding_storage() -> FakeStorage {
    storage_with_mode("WaitForFirstConsumer")
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
fn ephemeral_claim_gets_the_node_of_its_pod() {
    let waits = |shelf: FakeStorage| {
        let (stuck, asks) = check_pod(&shelf, "Pending");
        let (obstacle, words) = stuck.unwrap();
        assert_eq!(obstacle, StartObstacleKind::Claim, "{words}");
        asks
    };
    assert_eq!(waits(late_binding_storage()), 0, "it is not made yet");
    assert_eq!(
        waits(late_binding_storage().with_claim(claim(POD_UID, json!({})))),
        1
    );
    // A claim of the previous pod goes with that pod, bound or not.
    for phase in ["Bound", "Pending"] {
        let old = claim(
            "pod-before",
            json!({"status": {"phase": phase}, "spec": {"volumeName": "v"}}),
        );
        assert_eq!(waits(late_binding_storage().with_claim(old)), 0);
    }
    let selected = |node: &str| json!({"metadata": {"annotations": {SELECTED_NODE: node, names::PLAN: "plan"}}});
    assert_eq!(
        waits(late_binding_storage().with_claim(claim(POD_UID, selected("n")))),
        0
    );
    // The claim names another node, on which the pod is not.
    assert_eq!(
        waits(late_binding_storage().with_claim(claim(POD_UID, selected("m")))),
        1
    );
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(
        waits(late_binding_storage().with_claim(claim(POD_UID, going))),
        0
    );
    // A class that binds immediately needs no node.
    assert_eq!(
        waits(storage_with_mode("Immediate").with_claim(claim(POD_UID, json!({})))),
        0
    );
}

#[test]
fn unbindable_claim_is_reported_immediately() {
    let mut strange = claim(POD_UID, json!({}));
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
        (
            late_binding_storage().with_claim(strange),
            "does not belong to this pod",
        ),
        (
            late_binding_storage().with_claim(claim(POD_UID, refused)),
            "could not be provisioned for node \"n\"",
        ),
        (
            late_binding_storage().with_claim(claim(
                POD_UID,
                json!({"status": {"phase": "Lost"}, "spec": {"volumeName": "v"}}),
            )),
            "has lost its volume \"v\"",
        ),
        (
            storage_with_mode("Immediate")
                .with_claim(claim(POD_UID, bound.clone()))
                .with_volume(volume("m")),
            "which node \"n\" does not reach",
        ),
    ] {
        let (stuck, asks) = check_pod(&shelf, "Pending");
        let (obstacle, said) = stuck.unwrap();
        assert_eq!((obstacle, asks), (StartObstacleKind::Volume, 0), "{said}");
        assert!(said.contains(words), "{said}");
    }
    let here = late_binding_storage()
        .with_claim(claim(POD_UID, bound))
        .with_volume(volume("n"));
    assert_eq!(check_pod(&here, "Pending"), (None, 0));
    // A running pod has its volumes.
    assert_eq!(check_pod(&late_binding_storage(), "Running"), (None, 0));
    // Refused under an earlier plan: the current plan asks again.
    let before = json!({"metadata": {"annotations": {names::PLAN: "before"}}});
    let (stuck, asks) = check_pod(
        &late_binding_storage().with_claim(claim(POD_UID, before)),
        "Pending",
    );
    assert_eq!((stuck.unwrap().0, asks), (StartObstacleKind::Claim, 1));
}
