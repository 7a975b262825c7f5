//! Tests of the report of jobs in all states.

mod jobs;
mod lines;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::status::condition::JobSummary;
use trellis_reads::events::EventLine;
use trellis_reads::pods::{PodLine, find_missing};
use trellis_reads::report::{ChildState, ObjectLine, StatusReport};

use super::view;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn job(spec: Value, status: Value) -> TrainingJob {
    let mut job: TrainingJob = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm", "namespace": "ml", "uid": "u-1", "generation": 1,
            "creationTimestamp": "2026-01-01T09:00:00Z"},
        "spec": spec, "status": status,
    }))
    .unwrap();
    let status = job.status.as_mut().unwrap();
    status.policy =
        serde_json::from_value(json!({"decision": "Allowed", "requester": "ada@example.org"}))
            .unwrap();
    // The operator writes these conditions.
    let verdict = JobSummary {
        phase: status.phase.unwrap(),
        reason: status.reason.unwrap(),
        message: status.message.clone().unwrap_or_default(),
        quota_reserved: false,
        scheduled: false,
    };
    let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now());
    status.conditions = verdict.conditions(Some(1), &time, &[]);
    job
}

fn group(name: &str, fields: Value) -> Value {
    let mut group = json!({"name": name, "image": "registry.example/train:1",
        "resources": {"limits": {"cpu": 8, "memory": "64Gi"}}});
    let fields = fields.as_object().unwrap().clone();
    group.as_object_mut().unwrap().extend(fields);
    group
}

fn workers(replicas: u32) -> Value {
    json!({"framework": "PyTorch", "queueName": "research",
        "taskGroups": [group("worker", json!({"replicas": replicas, "gpus": 8}))]})
}

/// A pod with index and rank `n`.
fn pod(group: &str, n: u32, attempt: i64, node: &str, container: Value, phase: &str) -> Value {
    let ready = container.get("running").is_some();
    json!({
        "metadata": {"name": format!("llm-{group}-{n}"), "creationTimestamp": "2026-01-01T10:00:00Z",
            "labels": {"trellis.dev/group": group, "trellis.dev/index": n.to_string(),
                "trellis.dev/attempt": attempt.to_string()}},
        "spec": {"nodeName": node, "containers": [
            {"name": "main", "env": [{"name": "TRELLIS_RANK", "value": n.to_string()}]}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "ready": ready,
            "restartCount": 0, "image": "", "imageID": "", "state": container}]},
    })
}

/// The same pod, in a group whose first rank is 1.
fn with_second_rank(mut pod: Value, n: u32) -> Value {
    pod["spec"]["containers"][0]["env"][0]["value"] = json!(n.saturating_add(1).to_string());
    pod
}

fn running_pod(group: &str, n: u32, attempt: i64, node: &str) -> Value {
    pod(group, n, attempt, node, json!({"running": {}}), "Running")
}

fn report(job: TrainingJob, pods: Vec<Value>) -> StatusReport {
    let pods = pods
        .into_iter()
        .map(|pod| serde_json::from_value::<Pod>(pod).unwrap());
    let pods: Vec<_> = pods.filter_map(|pod| PodLine::from_pod(&pod)).collect();
    let object = |api_version: &str, kind: &str| ObjectLine {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: "llm".to_owned(),
        state: ChildState::There,
        problem: None,
    };
    StatusReport {
        missing: find_missing(&job, &pods),
        job,
        pods,
        objects: vec![
            object("v1", "Service"),
            object("networking.k8s.io/v1", "NetworkPolicy"),
            object("trellis.dev/v1alpha1", "PodGroup"),
        ],
        events: Vec::new(),
        unread: Vec::new(),
    }
}

fn event(type_: &str, reason: &str, note: &str, count: i32, last: &str) -> EventLine {
    EventLine {
        type_: type_.to_owned(),
        reason: reason.to_owned(),
        note: note.to_owned(),
        count,
        last: last.parse().unwrap(),
    }
}

fn text(report: &StatusReport, wide: bool) -> String {
    let text = view::render_report(report, now(), wide, Some(100));
    anstream::adapter::strip_str(&text).to_string()
}

/// A job that has failed before and avoids the failed node.
fn second_attempt_report() -> StatusReport {
    let mut spec = workers(4);
    spec["restart"] = json!({"limit": 5});
    spec["checkpoint"] = json!({"gracePeriodSeconds": 300});
    let job = job(
        spec,
        json!({"observedGeneration": 1, "phase": "Running", "reason": "Running",
            "message": "the gang runs, on 2 nodes: gpu-0 (2), gpu-2 (2)", "queue": "research",
            "ready": "4/4", "pods": {"total": 4, "running": 4, "succeeded": 0, "failed": 0},
            "nodes": 2, "gpus": 32, "attempt": 3, "restarts": 1, "disruptions": 1,
            "queuedTime": "2026-01-01T09:00:00Z", "scheduledTime": "2026-01-01T11:00:30Z",
            "runningTime": "2026-01-01T11:01:00Z", "activeSeconds": 5400,
            "checkpoint": {"lastTime": "2026-01-01T11:56:00Z"},
            "profile": {"name": "infiniband", "hash": "h"},
            "excludedNodes": [
                {"node": "gpu-1", "reason": "PodFailed", "times": 2, "attempt": 2, "until": "2026-01-01T12:04:00Z"},
                {"node": "gpu-9", "reason": "PodFailed", "times": 1, "attempt": 1, "until": "2026-01-01T11:04:00Z"}],
            "lastFailure": {"pod": "llm-worker-1", "node": "gpu-1", "exitCode": 1, "reason": "PodFailed",
                "lastLine": "\u{1b}[31mRuntimeError: CUDA error: an illegal memory access was encountered",
                "attempt": 2, "time": "2026-01-01T11:00:00Z"},
            "lastPreemption": {"message": "made room for team-b/urgent, of a higher priority", "attempt": 1,
                "time": "2026-01-01T10:10:00Z"}}),
    );
    let pods = [(0, "gpu-0"), (1, "gpu-0"), (2, "gpu-2"), (3, "gpu-2")];
    let pods = pods.map(|(n, node)| running_pod("worker", n, 3, node));
    let mut report = report(job, pods.into());
    report.objects.insert(
        2,
        ObjectLine {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            name: "llm-ssh-u".to_owned(),
            state: ChildState::Forbidden,
            problem: None,
        },
    );
    report.events = vec![
        event(
            "Warning",
            "Preempted",
            "made room for team-b/urgent",
            1,
            "2026-01-01T10:10:00Z",
        ),
        event(
            "Warning",
            "PodFailed",
            "llm-worker-1 failed on gpu-1 with exit code 1",
            1,
            "2026-01-01T11:00:00Z",
        ),
        event(
            "Normal",
            "Running",
            "the gang runs",
            2,
            "2026-01-01T11:01:00Z",
        ),
    ];
    report
}
