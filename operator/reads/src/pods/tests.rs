use serde_json::{Value, json};
use trellis_api::TrainingJob;

use super::*;

fn job(spec: Value, status: Value) -> TrainingJob {
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm"}, "spec": spec, "status": status,
    }))
    .unwrap()
}

fn group(name: &str, fields: Value) -> Value {
    let mut group =
        json!({"name": name, "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
    group
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    group
}

fn pod(status: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "llm-worker-3", "labels": {"trellis.dev/group": "worker",
            "trellis.dev/index": "3", "trellis.dev/attempt": "2"}},
        "spec": {"nodeName": "gpu-0", "containers": [
            {"name": "main", "env": [{"name": "TRELLIS_RANK", "value": "5"}]}]},
        "status": status,
    }))
    .unwrap()
}

#[test]
fn ranks_match_the_compiler() {
    let spec = json!({"taskGroups": [
        group("board", json!({"membership": "BestEffort"})),
        group("eval", json!({"role": "Evaluator", "replicas": 2})),
        group("worker", json!({"replicas": 4, "minReplicas": 2})),
        group("chief", json!({"role": "Coordinator"})),
    ]});
    let ranks = StageRanks::for_stage(&job(spec, json!(null)).spec, 1);
    assert_eq!(ranks.leader_group(), Some("chief"));
    assert_eq!(ranks.pod_at(1), Some(("worker", 0)));
    // An elastic group counts with its greatest number of pods.
    assert_eq!(ranks.pod_at(5), Some(("eval", 0)));
    assert_eq!(ranks.rank("board", 0), Some(7));
    assert_eq!(ranks.pod_at(8), None);
    assert_eq!(ranks.total(), 8);
}

#[test]
fn each_stage_counts_from_0() {
    let spec = json!({"taskGroups": [
        group("prepare", json!({"replicas": 2})),
        group("train", json!({"replicas": 8, "dependsOn": [{"group": "prepare", "status": "Complete"}]})),
    ]});
    let job = job(spec, json!(null));
    assert_eq!(
        StageRanks::for_stage(&job.spec, 2).pod_at(7),
        Some(("train", 7))
    );
    assert_eq!(StageRanks::for_stage(&job.spec, 1).pod_at(7), None);
    assert_eq!(group_stage(&job.spec, "train"), Some(2));
    assert_eq!(group_stage(&job.spec, "none"), None);
}

#[test]
fn pod_line_shows_labels_and_rank() {
    let line = PodLine::from_pod(&pod(json!({"phase": "Running"}))).unwrap();
    assert_eq!((line.group.as_str(), line.index), ("worker", 3));
    assert_eq!((line.rank, line.attempt), (Some(5), 2));
    assert_eq!(line.node.as_deref(), Some("gpu-0"));
    assert_eq!(PodLine::from_pod(&Pod::default()), None);
}

#[test]
fn states_match_kubectl() {
    let state_of = |status: Value| read_state(&pod(status)).state;
    let main = |state: Value| {
        json!({"phase": "Pending", "containerStatuses": [
        {"name": "main", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": state}]})
    };
    assert_eq!(state_of(json!(null)), "Pending");
    assert_eq!(state_of(json!({"phase": "Running"})), "Running");
    assert_eq!(
        state_of(main(
            json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}})
        )),
        "ImagePullBackOff"
    );
    assert_eq!(
        state_of(main(
            json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})
        )),
        "OOMKilled"
    );
    assert_eq!(
        state_of(main(json!({"terminated": {"exitCode": 1}}))),
        "Error"
    );
    assert_eq!(
        state_of(main(
            json!({"terminated": {"exitCode": 0, "reason": "Completed"}})
        )),
        "Completed"
    );
    assert_eq!(
        state_of(json!({"phase": "Failed", "reason": "Evicted"})),
        "Evicted"
    );
    let init = |state: Value| {
        json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "a", "ready": true, "restartCount": 0, "image": "", "imageID": "", "started": true,
            "state": {"running": {}}},
        {"name": "b", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": state}]})
    };
    assert_eq!(
        state_of(init(json!({"waiting": {"reason": "PodInitializing"}}))),
        "Init:1/2"
    );
    assert_eq!(
        state_of(init(json!({"waiting": {"reason": "ErrImagePull"}}))),
        "Init:ErrImagePull"
    );
    assert_eq!(
        state_of(init(json!({"terminated": {"exitCode": 2}}))),
        "Init:Error"
    );
    let mut going = pod(json!({"phase": "Running"}));
    going.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    assert_eq!(read_state(&going).state, "Terminating");
}

#[test]
fn last_message_has_no_colours() {
    let state = read_state(&pod(json!({"phase": "Failed", "containerStatuses": [
        {"name": "main", "ready": false, "restartCount": 0, "image": "", "imageID": "",
        "state": {"terminated": {"exitCode": 1, "reason": "Error",
            "message": "step 7\n\u{1b}[31mCUDA error:\u{1b}[0m\u{7} out of memory\n\n"}}}]})));
    assert_eq!(state.exit_code, Some(1));
    assert_eq!(state.message.as_deref(), Some("CUDA error: out of memory"));
}

#[test]
fn missing_pod_has_a_cause() {
    let spec = json!({"taskGroups": [
        group("store", json!({})),
        group("worker", json!({"replicas": 6, "minReplicas": 4, "dependsOn": [{"group": "store"}]})),
    ]});
    let held_job = job(
        spec.clone(),
        json!({"phase": "Starting", "attempt": 1,
            "internal": {"awaitedPods": {"attempt": 1, "round": 0, "countedRound": 0, "heldGroups": ["worker"]}}}),
    );
    let missing = find_missing(&held_job, &[]);
    let missing: Vec<_> = missing
        .iter()
        .map(|m| (m.ranks.as_str(), m.why.as_str()))
        .collect();
    assert_eq!(
        missing,
        [
            ("0", "is to be created"),
            ("1-6", "waits for store to be Ready (dependsOn)")
        ]
    );
    let running = job(
        spec,
        json!({"phase": "Running", "attempt": 1,
            "internal": {
                "finishedPods": {"attempt": 1, "groups": [{"name": "store", "completedIndexes": "0"}]},
                "awaitedPods": {"attempt": 1, "round": 1, "countedRound": 1,
                    "pods": [{"name": "worker", "indexes": "1", "round": 1, "notBefore": "2026-01-01T00:00:10Z"}]}}}),
    );
    let worker = |index| PodLine {
        group: "worker".to_owned(),
        index,
        attempt: 1,
        ..PodLine::default()
    };
    let missing = find_missing(&running, &[worker(0), worker(2), worker(3)]);
    let missing: Vec<_> = missing
        .iter()
        .map(|m| (m.indexes.as_str(), m.why.as_str(), m.done))
        .collect();
    assert_eq!(
        missing,
        [
            ("0", "succeeded, and the pod is gone", true),
            ("1", "is recreated", false),
            ("4-5", "waits for free capacity", false)
        ]
    );
    // A job that is not placed has no missing pods.
    assert_eq!(
        find_missing(
            &job(
                json!({"taskGroups": [group("a", json!({}))]}),
                json!({"phase": "Queued"})
            ),
            &[]
        ),
        []
    );
}
