//! The objects of a history.

use serde_json::{Value, json};

use super::{HistoryOptions, JOB, PREEMPTOR};

pub(in crate::tests) fn lease(transitions: i64) -> Value {
    json!({
        "metadata": {"name": "trellis-operator", "namespace": "trellis-system"},
        "spec": {
            "holderIdentity": format!("leader-{transitions}"), "leaseDurationSeconds": 15,
            "leaseTransitions": transitions,
        },
    })
}

pub(in crate::tests) fn leader_term(epoch: i64) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "LeaderTerm",
        "metadata": {"name": "trellis-operator", "namespace": "trellis-system"},
        "spec": {
            "epoch": epoch, "identity": format!("leader-{epoch}"), "since": "2026-01-01T00:00:00Z",
        },
    })
}

/// Returns a queue with quota for `pods` pods.
pub(super) fn queue(pods: usize) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": "research"},
        "spec": {"resourceGroups": [{
            "coveredResources": ["nvidia.com/gpu"],
            "flavors": [{
                "name": "default",
                "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8 * pods}],
            }],
        }]},
    })
}

pub(super) fn node(index: usize) -> Value {
    json!({
        "metadata": {"name": format!("node-{index}")},
        "status": {
            "allocatable": {"nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// Returns the PodGroup with one pod on each node.
pub(super) fn group(options: HistoryOptions, attempt: i64, plan: &str, phase: &str) -> Value {
    let assignments: Vec<Value> = (0..options.pods)
        .map(|index| json!({"group": "worker", "node": format!("node-{index}"), "count": 1}))
        .collect();
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {
            "name": "j", "namespace": "ns", "uid": "uid-g",
            "ownerReferences": [{
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j",
                "uid": JOB, "controller": true,
            }],
        },
        "spec": {
            "minMember": options.pods,
            "groups": [
                {"name": "worker", "count": options.pods, "resources": {"nvidia.com/gpu": "8"}},
            ],
        },
        "status": {
            "phase": phase, "epoch": 1,
            "plan": {
                "hash": plan, "attempt": attempt, "generation": 1, "compiled": "",
                "queue": "research", "assignments": assignments,
                "groups": [{"name": "worker", "flavors": {"nvidia.com/gpu": "default"}}],
            },
        },
    })
}

/// Returns the PodGroup without a plan.
pub(super) fn pending_group(options: HistoryOptions) -> Value {
    let mut pending = group(options, 1, "", "Pending");
    pending["status"].as_object_mut().unwrap().remove("plan");
    pending
}

/// Returns the PodGroup of the first stage.
pub(super) fn prepare_group(phase: &str) -> Value {
    let mut group = group(HistoryOptions::plain(1), 1, "prepare-1", phase);
    group["spec"]["groups"][0]["name"] = json!("prepare");
    group["status"]["plan"]["groups"][0]["name"] = json!("prepare");
    group["status"]["plan"]["assignments"][0]["group"] = json!("prepare");
    group
}

/// Returns the PodGroup of the preemptor.
pub(super) fn preemptor_group(options: HistoryOptions, phase: &str) -> Value {
    let mut group = group(options, 1, "plan-k", phase);
    group["metadata"]["name"] = json!("k");
    group["metadata"]["uid"] = json!("uid-group-k");
    group["metadata"]["ownerReferences"][0]["name"] = json!("k");
    group["metadata"]["ownerReferences"][0]["uid"] = json!(PREEMPTOR);
    group
}

pub(super) fn task_groups(options: HistoryOptions) -> Value {
    let worker = json!({
        "name": "worker", "replicas": options.pods, "image": "registry.example/train:1.0",
    });
    let mut groups = vec![worker];
    if options.has_stages {
        groups[0]["dependsOn"] = json!([{"group": "prepare", "status": "Complete"}]);
        groups.insert(
            0,
            json!({"name": "prepare", "image": "registry.example/prepare:1.0"}),
        );
    }
    json!(groups)
}

pub(in crate::tests) fn set_phase(job: &mut Value, phase: &str, attempt: i64) {
    let running = if phase == "Running" { "True" } else { "False" };
    job["status"] = json!({
        "observedGeneration": 1, "phase": phase, "attempt": attempt,
        "conditions": [{
            "type": "Running", "status": running, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
}
