use serde_json::Value;
use trellis_gang::fixtures::FakeStorage;
use trellis_gang::observed::SlimPod;

use super::*;

const POD_UID: &str = "pod-now";

/// Checks the claim of the pod "j-w-0" on node "n". Returns the start obstacle of the pod, and the
/// number of claims that need a node.
fn check_pod(storage: &FakeStorage, phase: &str) -> (Option<(StartObstacleKind, String)>, usize) {
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
    let volumes_by_group = [
        ("w".to_owned(), "scratch".to_owned()),
        ("other".to_owned(), "x".to_owned()),
    ];
    let (pods, requests) = check_claims(storage, "u", &volumes_by_group, Arc::new(pods));
    let obstacle = pods["j-w-0"].start_obstacle.as_ref();
    let obstacle = obstacle.map(|obstacle| {
        assert_eq!(obstacle.container, "j-w-0-scratch");
        assert!(obstacle.since.is_some());
        (obstacle.kind, obstacle.message.clone())
    });
    (obstacle, requests.len())
}

fn storage_with_mode(mode: &str) -> FakeStorage {
    FakeStorage::default().with_class(json!({"metadata": {"name": "fast"},
        "provisioner": "disks.example", "volumeBindingMode": mode}))
}

fn late_binding_storage() -> FakeStorage {
    storage_with_mode("WaitForFirstConsumer")
}

/// Returns the claim of the pod, with these fields of its metadata, spec and status.
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
    let count_requests = |storage: FakeStorage| {
        let (obstacle, requests) = check_pod(&storage, "Pending");
        let (kind, message) = obstacle.unwrap();
        assert_eq!(kind, StartObstacleKind::Claim, "{message}");
        requests
    };
    assert_eq!(
        count_requests(late_binding_storage()),
        0,
        "the claim does not exist yet"
    );
    assert_eq!(
        count_requests(late_binding_storage().with_claim(claim(POD_UID, json!({})))),
        1
    );
    // A claim of the previous pod is deleted with that pod.
    for phase in ["Bound", "Pending"] {
        let earlier_claim = claim(
            "pod-before",
            json!({"status": {"phase": phase}, "spec": {"volumeName": "v"}}),
        );
        assert_eq!(
            count_requests(late_binding_storage().with_claim(earlier_claim)),
            0
        );
    }
    let selected = |node: &str| json!({"metadata": {"annotations": {SELECTED_NODE: node, names::PLAN: "plan"}}});
    assert_eq!(
        count_requests(late_binding_storage().with_claim(claim(POD_UID, selected("n")))),
        0
    );
    // The claim names another node than the pod.
    assert_eq!(
        count_requests(late_binding_storage().with_claim(claim(POD_UID, selected("m")))),
        1
    );
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(
        count_requests(late_binding_storage().with_claim(claim(POD_UID, deleted))),
        0
    );
    // A class that binds immediately needs no node.
    assert_eq!(
        count_requests(storage_with_mode("Immediate").with_claim(claim(POD_UID, json!({})))),
        0
    );
}

#[test]
fn unbindable_claim_is_reported_immediately() {
    let mut unowned_claim = claim(POD_UID, json!({}));
    unowned_claim["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    let refused = json!({"metadata": {"annotations": {names::PLAN: "plan"}}});
    let bound = json!({"status": {"phase": "Bound"}, "spec": {"volumeName": "v"}});
    let volume = |node: &str| {
        json!({"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}}})
    };
    for (storage, text) in [
        (
            late_binding_storage().with_claim(unowned_claim),
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
        let (obstacle, requests) = check_pod(&storage, "Pending");
        let (kind, message) = obstacle.unwrap();
        assert_eq!(
            (kind, requests),
            (StartObstacleKind::Volume, 0),
            "{message}"
        );
        assert!(message.contains(text), "{message}");
    }
    let reachable = late_binding_storage()
        .with_claim(claim(POD_UID, bound))
        .with_volume(volume("n"));
    assert_eq!(check_pod(&reachable, "Pending"), (None, 0));
    // A running pod has its volumes.
    assert_eq!(check_pod(&late_binding_storage(), "Running"), (None, 0));
    // The provisioner rejected the node of an earlier plan. The current plan requests its own node.
    let earlier_plan = json!({"metadata": {"annotations": {names::PLAN: "before"}}});
    let (obstacle, requests) = check_pod(
        &late_binding_storage().with_claim(claim(POD_UID, earlier_plan)),
        "Pending",
    );
    assert_eq!(
        (obstacle.unwrap().0, requests),
        (StartObstacleKind::Claim, 1)
    );
}
