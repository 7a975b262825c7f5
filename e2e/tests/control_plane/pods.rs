//! The behavior of simulated kubelets.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use trellis_e2e::{
    cluster::{NodeSet, NodeTemplate},
    kubelet,
    site::namespace::TestNamespace,
    wait::{eventually, wait_for, wait_until_deleted},
};

use super::{SOON, pod_on_node, pod_phase, shared_control_plane};

async fn create_namespace_and_nodes(prefix: &str) -> (TestNamespace, NodeSet, Api<Pod>) {
    let control_plane = shared_control_plane().await;
    let nodes = NodeTemplate::new(2)
        .scope(prefix)
        .create(control_plane)
        .await
        .unwrap();
    let namespace = TestNamespace::create(control_plane, prefix).await.unwrap();
    let api = namespace.api();
    (namespace, nodes, api)
}

async fn create_pod(api: &Api<Pod>, name: &str, node: &str, annotations: Value) {
    api.create(
        &PostParams::default(),
        &pod_on_node(name, node, annotations),
    )
    .await
    .unwrap();
}

async fn set_annotation(api: &Api<Pod>, name: &str, key: &str, value: Option<&str>) {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

fn terminated_state(pod: &Pod) -> ContainerStateTerminated {
    let status = pod.status.as_ref().unwrap();
    let container = &status.container_statuses.as_ref().unwrap()[0];
    container.state.clone().unwrap().terminated.unwrap()
}

fn condition_status(pod: &Pod, kind: &str) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    Some(
        conditions
            .iter()
            .find(|condition| condition.type_ == kind)?
            .status
            .clone(),
    )
}

#[tokio::test]
async fn hundred_bound_pods_run() {
    let (_namespace, nodes, api) = create_namespace_and_nodes("hundred").await;
    stream::iter(0..100)
        .map(|index| {
            let pod = pod_on_node(&format!("p-{index}"), &nodes.names()[index % 2], json!({}));
            let api = api.clone();
            async move { api.create(&PostParams::default(), &pod).await }
        })
        .buffer_unordered(16)
        .try_collect::<Vec<Pod>>()
        .await
        .unwrap();
    let pods = eventually(Duration::from_secs(60), || async {
        let pods = api.list(&ListParams::default()).await?;
        let running = pods
            .iter()
            .filter(|pod| pod_phase(pod) == "Running")
            .count();
        anyhow::ensure!(running == 100, "{running} of 100 run");
        Ok(pods)
    })
    .await
    .unwrap();
    let mut addresses = std::collections::BTreeSet::new();
    for pod in &pods {
        for kind in ["PodScheduled", "Initialized", "ContainersReady", "Ready"] {
            assert_eq!(
                condition_status(pod, kind).as_deref(),
                Some("True"),
                "{kind}"
            );
        }
        let status = pod.status.as_ref().unwrap();
        let container = &status.container_statuses.as_ref().unwrap()[0];
        assert!(container.ready && container.started == Some(true));
        assert!(
            container
                .state
                .as_ref()
                .unwrap()
                .running
                .as_ref()
                .unwrap()
                .started_at
                .is_some()
        );
        assert!(status.start_time.is_some());
        addresses.insert(status.pod_ip.clone().unwrap());
    }
    assert_eq!(addresses.len(), 100, "two pods share an address");
}

#[tokio::test]
async fn pods_exit_as_annotated_before_or_after_start() {
    let (_namespace, nodes, api) = create_namespace_and_nodes("exit").await;
    let node = &nodes.names()[0];
    create_pod(&api, "fails", node, json!({kubelet::EXIT: "3"})).await;
    create_pod(&api, "succeeds", node, json!({kubelet::EXIT: "0"})).await;
    create_pod(&api, "late", node, json!({})).await;
    let oom = json!({kubelet::EXIT: "0", kubelet::EXIT_REASON: "OOMKilled"});
    create_pod(&api, "child-oom", node, oom).await;

    let failed = wait_for(&api, "fails", SOON, |pod| pod_phase(pod) == "Failed")
        .await
        .unwrap();
    assert_eq!(
        (
            terminated_state(&failed).exit_code,
            terminated_state(&failed).reason.as_deref()
        ),
        (3, Some("Error"))
    );
    assert_eq!(condition_status(&failed, "Ready").as_deref(), Some("False"));
    assert_eq!(
        condition_status(&failed, "PodScheduled").as_deref(),
        Some("True")
    );

    let succeeded = wait_for(&api, "succeeds", SOON, |pod| pod_phase(pod) == "Succeeded")
        .await
        .unwrap();
    assert_eq!(
        terminated_state(&succeeded).reason.as_deref(),
        Some("Completed")
    );

    let oom = wait_for(&api, "child-oom", SOON, |pod| pod_phase(pod) == "Succeeded")
        .await
        .unwrap();
    assert_eq!(
        (
            terminated_state(&oom).exit_code,
            terminated_state(&oom).reason.as_deref()
        ),
        (0, Some("OOMKilled"))
    );

    wait_for(&api, "late", SOON, |pod| pod_phase(pod) == "Running")
        .await
        .unwrap();
    set_annotation(&api, "late", kubelet::EXIT, Some("137")).await;
    let failed_pod = wait_for(&api, "late", SOON, |pod| pod_phase(pod) == "Failed")
        .await
        .unwrap();
    assert_eq!(terminated_state(&failed_pod).exit_code, 137);
}

#[tokio::test]
async fn pod_runs_for_the_annotated_time() {
    let (_namespace, nodes, api) = create_namespace_and_nodes("run-for").await;
    let node = &nodes.names()[0];
    create_pod(&api, "short", node, json!({kubelet::RUN_FOR: "2s"})).await;
    create_pod(
        &api,
        "crashes",
        node,
        json!({kubelet::RUN_FOR: "2s", kubelet::EXIT: "1"}),
    )
    .await;
    let short = wait_for(&api, "short", SOON, |pod| pod_phase(pod) == "Succeeded")
        .await
        .unwrap();
    let short = terminated_state(&short);
    let (started, finished) = (short.started_at.unwrap(), short.finished_at.unwrap());
    let ran = finished.0.duration_since(started.0);
    assert!(ran.as_secs() >= 2, "{ran}");
    assert_eq!(short.exit_code, 0);
    let crashed = wait_for(&api, "crashes", SOON, |pod| pod_phase(pod) == "Failed")
        .await
        .unwrap();
    assert_eq!(terminated_state(&crashed).exit_code, 1);
}

#[tokio::test]
async fn refused_pod_has_the_status_of_a_real_kubelet() {
    let (_namespace, nodes, api) = create_namespace_and_nodes("refuse").await;
    let [first, second] = nodes.names() else {
        panic!("two nodes")
    };
    let refuse = json!({kubelet::REFUSE: "OutOfnvidia.com/gpu"});
    create_pod(&api, "refused", first, refuse).await;
    let refusal = json!({kubelet::REFUSE: "OutOfcpu", kubelet::REFUSE_ON: first});
    create_pod(&api, "refused-here", first, refusal.clone()).await;
    create_pod(&api, "welcome-there", second, refusal).await;

    let refused = wait_for(&api, "refused", SOON, |pod| pod_phase(pod) == "Failed")
        .await
        .unwrap();
    let status = refused.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("OutOfnvidia.com/gpu"));
    assert!(status.start_time.is_some());
    assert!(status.container_statuses.is_none());
    assert!(status.conditions.is_none());
    wait_for(&api, "refused-here", SOON, |pod| pod_phase(pod) == "Failed")
        .await
        .unwrap();
    wait_for(&api, "welcome-there", SOON, |pod| {
        pod_phase(pod) == "Running"
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_pod_hangs_until_it_may_start() {
    let (_namespace, nodes, api) = create_namespace_and_nodes("hang").await;
    create_pod(
        &api,
        "hangs",
        &nodes.names()[0],
        json!({kubelet::HANG: "true"}),
    )
    .await;
    let hanging = wait_for(&api, "hangs", SOON, |pod| {
        pod.status
            .as_ref()
            .is_some_and(|status| status.container_statuses.is_some())
    })
    .await
    .unwrap();
    assert_eq!(pod_phase(&hanging), "Pending");
    assert_eq!(
        condition_status(&hanging, "PodScheduled").as_deref(),
        Some("True")
    );
    assert_eq!(
        condition_status(&hanging, "Ready").as_deref(),
        Some("False")
    );
    let status = hanging.status.unwrap();
    let state = status.container_statuses.unwrap()[0].state.clone().unwrap();
    assert_eq!(
        state.waiting.unwrap().reason.as_deref(),
        Some("ContainerCreating")
    );
    set_annotation(&api, "hangs", kubelet::HANG, None).await;
    let started = wait_for(&api, "hangs", SOON, |pod| pod_phase(pod) == "Running")
        .await
        .unwrap();
    assert_eq!(condition_status(&started, "Ready").as_deref(), Some("True"));
}

#[tokio::test]
async fn deleted_pods_stop_at_once_slowly_or_never() {
    let (_namespace, nodes, api) = create_namespace_and_nodes("delete").await;
    let node = &nodes.names()[0];
    create_pod(&api, "plain", node, json!({})).await;
    create_pod(&api, "slow", node, json!({kubelet::STOP_AFTER: "2s"})).await;
    create_pod(
        &api,
        "stuck",
        node,
        json!({kubelet::STUCK_TERMINATING: "true"}),
    )
    .await;
    for name in ["plain", "slow", "stuck"] {
        wait_for(&api, name, SOON, |pod| pod_phase(pod) == "Running")
            .await
            .unwrap();
    }
    let deleted = std::time::Instant::now();
    for name in ["plain", "slow", "stuck"] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    wait_until_deleted(&api, "plain", SOON).await.unwrap();
    wait_until_deleted(&api, "slow", SOON).await.unwrap();
    assert!(
        deleted.elapsed() > Duration::from_millis(1900),
        "{:?}",
        deleted.elapsed()
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stuck_pod = api.get("stuck").await.unwrap();
    assert!(stuck_pod.metadata.deletion_timestamp.is_some());
    assert_eq!(pod_phase(&stuck_pod), "Running");
    set_annotation(&api, "stuck", kubelet::STUCK_TERMINATING, None).await;
    wait_until_deleted(&api, "stuck", SOON).await.unwrap();
}

/// Creates the pod as soon as the previous pod with its name is gone.
async fn replace_pod(api: &Api<Pod>, pod: &Pod) -> Pod {
    let create = async || {
        loop {
            match api.create(&PostParams::default(), pod).await {
                Ok(created) => return created,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    // Several concurrent creates reduce the delay.
    tokio::select! {
        created = create() => created,
        created = create() => created,
        created = create() => created,
    }
}

#[tokio::test]
async fn recreated_pod_is_not_affected_by_its_predecessor() {
    let (_namespace, nodes, api) = create_namespace_and_nodes("again").await;
    let new_pod = pod_on_node("again", &nodes.names()[0], json!({}));
    api.create(&PostParams::default(), &new_pod).await.unwrap();
    for _ in 0..30 {
        wait_for(&api, "again", SOON, |pod| pod_phase(pod) == "Running")
            .await
            .unwrap();
        api.delete("again", &DeleteParams::default()).await.unwrap();
        let new = replace_pod(&api, &new_pod).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = api.get("again").await.unwrap();
        assert_eq!(now.metadata.uid, new.metadata.uid);
        assert!(now.metadata.deletion_timestamp.is_none());
    }
}
