//! Reports of jobs in all states.

use serde_json::json;
use trellis_reads::report::ReadErrorLine;

use super::*;

#[test]
fn report_of_a_pending_job() {
    let job = job(
        workers(8),
        json!({"observedGeneration": 1, "phase": "Queued", "reason": "InsufficientCapacity",
            "message": "needs 64 nvidia.com/gpu, 24 of them are free on the 32 nodes that match; 40 more must become free, such as those of team-b/bert",
            "queue": "research", "ready": "0/8", "pods": {"total": 8, "running": 0, "succeeded": 0, "failed": 0},
            "gpus": 64, "attempt": 1, "queuedTime": "2026-01-01T09:00:00Z"}),
    );
    let mut report = report(job, vec![]);
    report.events = vec![
        event(
            "Normal",
            "Queued",
            "is in its queue",
            1,
            "2026-01-01T09:00:00Z",
        ),
        event(
            "Normal",
            "InsufficientCapacity",
            "needs 64 nvidia.com/gpu",
            7,
            "2026-01-01T11:58:30Z",
        ),
    ];
    insta::assert_snapshot!(text(&report, false));
}

#[test]
fn report_of_a_starting_job() {
    let job = job(
        json!({"queueName": "research", "taskGroups": [
            group("store", json!({})),
            group("worker", json!({"replicas": 4, "gpus": 8})),
            group("eval", json!({"role": "Evaluator", "dependsOn": [{"group": "store"}]})),
        ]}),
        json!({"observedGeneration": 1, "phase": "Starting", "reason": "Starting",
            "message": "1 of 6 pods run", "queue": "research", "ready": "1/6", "nodes": 2, "gpus": 32,
            "pods": {"total": 6, "running": 1, "succeeded": 0, "failed": 0}, "attempt": 1,
            "queuedTime": "2026-01-01T09:00:00Z", "scheduledTime": "2026-01-01T11:59:00Z",
            "internal": {"awaitedPods": {"attempt": 1, "round": 0, "countedRound": 0, "heldGroups": ["eval"]}}}),
    );
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff",
        "message": "Back-off pulling image \"registry.example/train:1\": not found"}});
    let creates = || json!({"waiting": {"reason": "ContainerCreating"}});
    let mut report = report(
        job,
        vec![
            running_pod("store", 0, 1, "gpu-0"),
            with_second_rank(pod("worker", 1, 1, "gpu-0", creates(), "Pending"), 1),
            with_second_rank(pod("worker", 2, 1, "gpu-0", creates(), "Pending"), 2),
            with_second_rank(pod("worker", 3, 1, "gpu-1", waiting, "Pending"), 3),
        ],
    );
    report.objects[1].state = ChildState::Missing;
    report.objects[1].problem = Some("admission webhook \"net.example.org\" denied it".to_owned());
    insta::assert_snapshot!(text(&report, false));
}

#[test]
fn report_of_a_running_job_after_a_failure() {
    insta::assert_snapshot!(text(&second_attempt_report(), false));
}

#[test]
fn report_of_a_running_job_with_all_columns() {
    insta::assert_snapshot!(text(&second_attempt_report(), true));
}

#[test]
fn report_of_an_elastic_job() {
    let mut spec = workers(6);
    spec["taskGroups"][0]["minReplicas"] = json!(2);
    let job = job(
        spec,
        json!({"observedGeneration": 1, "phase": "Running", "reason": "Recovering",
            "message": "llm-worker-1 is started again", "queue": "research", "ready": "3/6",
            "pods": {"total": 6, "running": 3, "succeeded": 0, "failed": 1}, "nodes": 2, "gpus": 16,
            "attempt": 1, "restarts": 1, "queuedTime": "2026-01-01T09:00:00Z",
            "scheduledTime": "2026-01-01T09:01:00Z", "runningTime": "2026-01-01T09:02:00Z",
            "internal": {"awaitedPods": {"attempt": 1, "round": 1, "countedRound": 1, "pods": [
                {"name": "worker", "indexes": "1", "round": 1, "notBefore": "2026-01-01T12:00:10Z"}]}}}),
    );
    let mut restarted = running_pod("worker", 3, 1, "gpu-1");
    restarted["metadata"]["annotations"] = json!({"trellis.dev/round": "1"});
    let pods = vec![
        running_pod("worker", 0, 1, "gpu-0"),
        running_pod("worker", 2, 1, "gpu-0"),
        restarted,
    ];
    insta::assert_snapshot!(text(&report(job, pods), false));
}

#[test]
fn report_of_a_job_with_stages() {
    let job = job(
        json!({"queueName": "research", "taskGroups": [
            group("prepare", json!({"replicas": 2})),
            group("train", json!({"replicas": 2, "gpus": 8,
                "dependsOn": [{"group": "prepare", "status": "Complete"}]})),
        ]}),
        json!({"observedGeneration": 1, "phase": "Running", "reason": "Running",
            "message": "the gang runs, on 1 node: gpu-0 (2)", "queue": "research", "ready": "2/2",
            "nodes": 1, "gpus": 16, "attempt": 2,
            "stage": {"number": 2, "of": 2, "firstAttempt": 2, "since": "2026-01-01T10:00:00Z"},
            "queuedTime": "2026-01-01T09:00:00Z", "scheduledTime": "2026-01-01T10:20:00Z",
            "runningTime": "2026-01-01T10:21:00Z", "activeSeconds": 1800}),
    );
    let ended = || json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
    let pods = vec![
        pod("prepare", 0, 1, "cpu-0", ended(), "Succeeded"),
        pod("prepare", 1, 1, "cpu-0", ended(), "Succeeded"),
        running_pod("train", 0, 2, "gpu-0"),
        running_pod("train", 1, 2, "gpu-0"),
    ];
    insta::assert_snapshot!(text(&report(job, pods), false));
}

#[test]
fn report_of_a_suspended_job() {
    let mut spec = workers(2);
    spec["suspend"] = json!(true);
    let job = job(
        spec,
        json!({"observedGeneration": 1, "phase": "Suspended", "reason": "Suspended",
            "message": "the user has suspended it", "queue": "research", "ready": "0/2", "attempt": 2,
            "activeSeconds": 3600, "queuedTime": "2026-01-01T09:00:00Z"}),
    );
    insta::assert_snapshot!(text(&report(job, vec![]), false));
}

#[test]
fn report_of_a_complete_job() {
    let job = job(
        workers(2),
        json!({"observedGeneration": 1, "phase": "Complete", "reason": "Complete",
            "message": "all pods have succeeded", "queue": "research", "ready": "2/2", "attempt": 1,
            "pods": {"total": 2, "running": 0, "succeeded": 2, "failed": 0},
            "queuedTime": "2026-01-01T09:00:00Z", "scheduledTime": "2026-01-01T09:00:05Z",
            "activeSeconds": 7200, "completionTime": "2026-01-01T11:30:00Z"}),
    );
    let mut report = report(job, vec![]);
    for object in &mut report.objects {
        object.state = ChildState::Missing;
    }
    insta::assert_snapshot!(text(&report, false));
}

#[test]
fn report_of_a_failed_job() {
    let job = job(
        workers(2),
        json!({"observedGeneration": 1, "phase": "Failed", "reason": "RestartLimitReached",
            "message": "failed 4 times, and restart.limit is 3: llm-worker-1 ended with exit code 137",
            "queue": "research", "ready": "0/2", "attempt": 4, "restarts": 3,
            "pods": {"total": 2, "running": 0, "succeeded": 0, "failed": 2},
            "queuedTime": "2026-01-01T09:00:00Z", "scheduledTime": "2026-01-01T11:00:00Z",
            "activeSeconds": 7200, "completionTime": "2026-01-01T11:30:00Z",
            "lastFailure": {"pod": "llm-worker-1", "node": "gpu-0", "exitCode": 137, "reason": "OutOfMemory",
                "attempt": 4, "time": "2026-01-01T11:30:00Z"}}),
    );
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    let failed = json!({"terminated": {"exitCode": 1, "reason": "Error",
        "message": "step 900\nNCCL error: remote process exited"}});
    let pods = vec![
        pod("worker", 0, 4, "gpu-0", failed, "Failed"),
        pod("worker", 1, 4, "gpu-0", killed, "Failed"),
    ];
    insta::assert_snapshot!(text(&report(job, pods), false));
}

#[test]
fn report_of_a_refused_job() {
    let mut job = job(
        workers(2),
        json!({"observedGeneration": 1, "phase": "Refused", "reason": "PolicyDenied",
            "message": "no policy permits UsePrivilege on \"hostNetwork\""}),
    );
    job.status.as_mut().unwrap().policy = serde_json::from_value(json!({"decision": "Denied",
        "requesterUnknown": "the annotation is not the webhook's",
        "missingPermits": ["action == Action::\"UsePrivilege\", resource == Privilege::\"hostNetwork\""]}))
    .unwrap();
    let mut report = report(job, vec![]);
    report.objects.clear();
    report.unread = vec![ReadErrorLine {
        what: "pods",
        why: "cannot list pods: the right to do so is missing: pods is forbidden: User \"bob\" cannot list resource \"pods\"".to_owned(),
    }];
    insta::assert_snapshot!(text(&report, false));
}
