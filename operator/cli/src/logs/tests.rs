//! Tests of pod selection, of the messages for missing logs, and of broken streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use k8s_openapi::api::core::v1::Pod;
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use trellis_api::TrainingJob;

use super::log_stream::{LogRange, stream_log};
use super::no_log::{NoLog, explain_not_started};
use super::pod_selection::{LogTarget, SelectedPod, select_pods};
use super::unreadable_log::UnreadableLog;

fn job(status: Value) -> TrainingJob {
    let group = |name: &str, fields: Value| {
        let mut group = json!({"name": name, "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
        let fields = fields.as_object().unwrap().clone();
        group.as_object_mut().unwrap().extend(fields);
        group
    };
    let after = json!([{"group": "prepare", "status": "Complete"}]);
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm", "namespace": "ml", "uid": "u"},
        "spec": {"taskGroups": [
            group("prepare", json!({"replicas": 2})),
            group("worker", json!({"replicas": 4, "minReplicas": 2, "dependsOn": after})),
            group("chief", json!({"role": "Coordinator", "dependsOn": after})),
        ]},
        "status": status,
    }))
    .unwrap()
}

/// In the second stage, the ranks start with the chief.
fn pod(group: &str, index: u32, rank: u32, attempt: i64, state: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": format!("llm-{group}-{index}"), "uid": format!("{group}-{index}-{attempt}"),
            "labels": {"trellis.dev/group": group, "trellis.dev/index": index.to_string(),
                "trellis.dev/attempt": attempt.to_string()}},
        "spec": {"containers": [
            {"name": "main", "env": [{"name": "TRELLIS_RANK", "value": rank.to_string()}]}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "ready": true,
            "restartCount": 0, "image": "", "imageID": "", "state": state}]},
    }))
    .unwrap()
}

fn running() -> Value {
    json!({"phase": "Running", "reason": "Running", "attempt": 3,
        "stage": {"number": 2, "of": 2, "firstAttempt": 2}})
}

fn pods() -> Vec<Pod> {
    let up = || json!({"running": {}});
    let ended = || json!({"terminated": {"exitCode": 0}});
    vec![
        pod("prepare", 0, 0, 1, ended()),
        pod("prepare", 1, 1, 1, ended()),
        pod("worker", 0, 1, 3, up()),
        pod(
            "worker",
            1,
            2,
            3,
            json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}}),
        ),
        pod("chief", 0, 0, 3, up()),
        pod("worker", 0, 1, 2, ended()),
    ]
}

fn names(chosen: Result<Vec<SelectedPod>, NoLog>) -> Vec<String> {
    let chosen = chosen.unwrap().into_iter();
    chosen
        .map(|chosen| format!("{}@{}", chosen.pod.name, chosen.pod.attempt))
        .collect()
}

fn select(target: LogTarget) -> Result<Vec<SelectedPod>, NoLog> {
    select_pods(&job(running()), &pods(), &target)
}

#[test]
fn rank_0_is_selected_by_default() {
    assert_eq!(names(select(LogTarget::default())), ["llm-chief-0@3"]);
}

#[test]
fn pod_is_selected_by_rank_group_and_index() {
    let rank = |rank| LogTarget {
        rank: Some(rank),
        ..LogTarget::default()
    };
    assert_eq!(names(select(rank(2))), ["llm-worker-1@3"]);
    let group = |group: &str, index| LogTarget {
        group: Some(group.to_owned()),
        index,
        ..LogTarget::default()
    };
    assert_eq!(names(select(group("worker", None))), ["llm-worker-0@3"]);
    assert_eq!(names(select(group("worker", Some(1)))), ["llm-worker-1@3"]);
    // The logs of a complete stage stay available.
    assert_eq!(
        names(select(group("prepare", Some(1)))),
        ["llm-prepare-1@1"]
    );
    let all = LogTarget {
        all: true,
        ..LogTarget::default()
    };
    assert_eq!(
        names(select(all.clone())),
        ["llm-chief-0@3", "llm-worker-0@3", "llm-worker-1@3"]
    );
    let group = LogTarget {
        group: Some("prepare".to_owned()),
        ..all
    };
    assert_eq!(names(select(group)), ["llm-prepare-0@1", "llm-prepare-1@1"]);
}

#[test]
fn current_pod_is_selected_among_two_of_one_rank() {
    let mut pods = pods();
    // This pod was created while an earlier group had more pods.
    pods.insert(0, pod("worker", 3, 2, 3, json!({"running": {}})));
    let target = LogTarget {
        rank: Some(2),
        ..LogTarget::default()
    };
    assert_eq!(
        names(select_pods(&job(running()), &pods, &target)),
        ["llm-worker-1@3"]
    );
}

#[test]
fn previous_selects_the_earlier_attempt_or_container() {
    let target = LogTarget {
        group: Some("worker".to_owned()),
        previous: true,
        ..LogTarget::default()
    };
    assert_eq!(names(select(target.clone())), ["llm-worker-0@2"]);
    let mut pods = pods();
    let status = pods[2].status.as_mut().unwrap();
    status.container_statuses.as_mut().unwrap()[0].restart_count = 1;
    let chosen = select_pods(&job(running()), &pods, &target).unwrap();
    assert!(chosen[0].before_restart);
    assert_eq!(chosen[0].pod.attempt, 3);
}

#[test]
fn unknown_container_error_names_the_existing_containers() {
    let mut pods = pods();
    let spec = pods[3].spec.as_mut().unwrap();
    let sidecar = serde_json::from_value(json!({"name": "proxy"})).unwrap();
    spec.init_containers = Some(vec![sidecar]);
    let target = |container: &str, all: bool| LogTarget {
        group: Some("worker".to_owned()),
        index: Some(1).filter(|_| !all),
        all,
        container: Some(container.to_owned()),
        ..LogTarget::default()
    };
    let choose = |container, all| select_pods(&job(running()), &pods, &target(container, all));
    assert_eq!(
        choose("prxy", false),
        Err(NoLog::Impossible(
            "llm-worker-1 has no container \"prxy\": name one of main, proxy".to_owned()
        ))
    );
    assert!(matches!(choose("prxy", true), Err(NoLog::Unavailable(_))));
    // With `all`, only the pods that have the container are selected.
    assert_eq!(names(choose("proxy", true)), ["llm-worker-1@3"]);
}

fn no_log_text(status: Value, pods: &[Pod], target: LogTarget) -> String {
    match select_pods(&job(status), pods, &target) {
        Ok(chosen) => panic!("{chosen:?}"),
        Err(NoLog::Impossible(reason) | NoLog::Unavailable(reason)) => reason,
    }
}

#[test]
fn missing_log_is_explained() {
    let rank = |rank| LogTarget {
        rank: Some(rank),
        ..LogTarget::default()
    };
    let group = |group: &str| LogTarget {
        group: Some(group.to_owned()),
        ..LogTarget::default()
    };
    let queued = json!({"phase": "Queued", "reason": "InsufficientCapacity",
        "message": "needs 8 nvidia.com/gpu", "attempt": 1});
    let failed = json!({"phase": "Failed", "reason": "RestartLimitReached", "attempt": 4,
        "completionTime": "2026-01-01T00:00:00Z", "stage": {"number": 2, "of": 2, "firstAttempt": 2},
        "lastFailure": {"pod": "llm-worker-0", "reason": "PodFailed", "attempt": 4,
            "lastLine": "CUDA error", "time": "2026-01-01T00:00:00Z"}});
    let previous = LogTarget {
        previous: true,
        ..LogTarget::default()
    };
    let first = json!({"phase": "Running", "reason": "Running", "attempt": 1});
    let all = [
        no_log_text(json!(null), &[], LogTarget::default()),
        no_log_text(queued, &[], LogTarget::default()),
        no_log_text(running(), &pods(), rank(9)),
        no_log_text(running(), &pods(), rank(4)),
        no_log_text(running(), &pods(), group("trainer")),
        no_log_text(first.clone(), &[], group("worker")),
        no_log_text(first, &[], previous),
        no_log_text(failed, &[], LogTarget::default()),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn unstarted_pod_is_explained_by_its_state() {
    let target = LogTarget {
        rank: Some(2),
        ..LogTarget::default()
    };
    let chosen = select(target).unwrap();
    assert!(!chosen[0].has_started);
    assert_eq!(
        explain_not_started(&chosen[0].pod, &chosen[0].container),
        "llm-worker-1 has no log of container \"main\" yet: it is ImagePullBackOff: Back-off"
    );
}

/// An API server with these answers in sequence. It reports the requested URIs.
fn server(answers: Vec<(u16, String)>, uris: mpsc::UnboundedSender<String>) -> Api<Pod> {
    let turn = Arc::new(AtomicUsize::new(0));
    let answers = Arc::new(answers);
    let answer = move |request: Request<Body>| {
        let at = turn.fetch_add(1, Ordering::Relaxed);
        let (code, body) = answers.get(at).or(answers.last()).unwrap().clone();
        uris.send(request.uri().to_string()).unwrap();
        async move {
            let answer = Response::builder()
                .status(code)
                .body(Body::from(body.into_bytes()));
            Ok::<_, std::io::Error>(answer.unwrap())
        }
    };
    Api::namespaced(Client::new(tower::service_fn(answer), "ml"), "ml")
}

async fn read_log(answers: Vec<(u16, String)>, part: LogRange) -> (String, Vec<String>) {
    let (uri_sender, mut uris) = mpsc::unbounded_channel();
    let (out, mut pieces) = mpsc::channel(16);
    let chosen = select(LogTarget::default()).unwrap().remove(0);
    let pods = server(answers, uri_sender);
    let read = stream_log(pods, chosen, part, String::new(), None, out);
    read.await.unwrap();
    let mut text = Vec::new();
    while let Some(piece) = pieces.recv().await {
        text.extend(piece);
    }
    let mut all = Vec::new();
    while let Some(uri) = uris.recv().await {
        all.push(uri);
    }
    (String::from_utf8(text).unwrap(), all)
}

#[tokio::test]
async fn followed_log_continues_after_a_broken_stream() {
    let line = |second: u32, text: &str| format!("2026-01-01T10:00:0{second}.5Z {text}\n");
    let pod = |state: Value| {
        serde_json::to_string(&{
            let mut pod = pod("chief", 0, 0, 3, state);
            pod.metadata.uid = Some("chief-0-3".to_owned());
            pod
        })
        .unwrap()
    };
    let (text, uris) = read_log(
        vec![
            (200, format!("{}{}", line(1, "a"), line(2, "b"))),
            // The container still runs: the stream has ended for another reason.
            (200, pod(json!({"running": {}}))),
            (503, "{}".to_owned()),
            (200, format!("{}{}", line(2, "b"), line(3, "c"))),
            (200, pod(json!({"terminated": {"exitCode": 0}}))),
        ],
        LogRange {
            follow: true,
            tail: Some(2),
            ..LogRange::default()
        },
    )
    .await;
    assert_eq!(text, "a\nb\nc\n");
    let logs: Vec<_> = uris.iter().filter(|uri| uri.contains("/log?")).collect();
    assert_eq!(logs.len(), 3);
    assert!(logs[0].contains("tailLines=2"), "{}", logs[0]);
    assert!(
        logs[2].contains("sinceTime=2026-01-01T10%3A00%3A0"),
        "{}",
        logs[2]
    );
    assert!(!logs[2].contains("tailLines"), "{}", logs[2]);
}

#[tokio::test]
async fn log_without_follow_is_passed_on_unchanged() {
    let (text, uris) = read_log(
        vec![(200, "one\nhalf".to_owned())],
        LogRange {
            since_seconds: Some(300),
            ..LogRange::default()
        },
    )
    .await;
    assert_eq!(text, "one\nhalf");
    assert_eq!(
        uris,
        ["/api/v1/namespaces/ml/pods/llm-chief-0/log?&container=main&sinceSeconds=300"]
    );
}

/// Reads a pod on node gpu-1 from an API server with these answers.
/// Returns the failure and the requests.
async fn unreadable(answers: Vec<(u16, String)>, follow: bool) -> (UnreadableLog, Vec<String>) {
    let (uri_sender, mut uris) = mpsc::unbounded_channel();
    let (out, _pieces) = mpsc::channel(16);
    let mut chosen = select(LogTarget::default()).unwrap().remove(0);
    chosen.pod.node = Some("gpu-1".to_owned());
    let part = LogRange {
        follow,
        ..LogRange::default()
    };
    let pods = server(answers, uri_sender);
    let read = stream_log(pods, chosen, part, String::new(), None, out);
    let failure = read.await.unwrap_err();
    let mut all = Vec::new();
    while let Some(uri) = uris.recv().await {
        all.push(uri);
    }
    (failure, all)
}

fn status(code: u16, message: &str) -> (u16, String) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "code": code});
    (code, status.to_string())
}

const UNREACHABLE: &str = "Get \"https://gpu-1:10250/containerLogs/ml/llm-chief-0/main\": \
                         dial tcp: lookup gpu-1: no such host";

#[tokio::test]
async fn log_on_a_simulated_node_is_requested_once() {
    let node =
        json!({"metadata": {"name": "gpu-1", "annotations": {"kwok.x-k8s.io/node": "fake"}}});
    for (code, message) in [
        (500, UNREACHABLE),
        (400, "no logs found for container \"main\""),
    ] {
        for follow in [false, true] {
            let answers = vec![status(code, message), (200, node.to_string())];
            let (failure, uris) = unreadable(answers, follow).await;
            assert!(failure.is_simulated, "{failure:?}");
            assert_eq!(uris.len(), 2, "{uris:?}");
            assert_eq!(uris[1], "/api/v1/nodes/gpu-1");
        }
    }
}

#[tokio::test]
async fn unreachable_kubelet_is_the_reason_on_a_real_or_forbidden_node() {
    let node = json!({"metadata": {"name": "gpu-1"}});
    for answer in [(200, node.to_string()), status(403, "nodes is forbidden")] {
        let (failure, _) = unreadable(vec![status(500, UNREACHABLE), answer], false).await;
        assert!(!failure.is_simulated, "{failure:?}");
        assert_eq!(
            failure.unreachable_kubelet().unwrap(),
            "llm-chief-0: the kubelet of node \"gpu-1\" cannot be reached: \
             dial tcp: lookup gpu-1: no such host"
        );
    }
}

#[tokio::test]
async fn missing_right_reads_no_node() {
    let (failure, uris) = unreadable(vec![status(403, "pods/log is forbidden")], true).await;
    assert!(!failure.is_simulated, "{failure:?}");
    assert_eq!(uris.len(), 1, "{uris:?}");
}
