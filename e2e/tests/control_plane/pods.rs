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
    cluster::{NodeSet, Nodes},
    kubelet,
    namespace::TestNamespace,
    wait::{eventually, wait_for, wait_gone},
};

use super::{SOON, phase, pod, shared};

async fn place(prefix: &str) -> (TestNamespace, NodeSet, Api<Pod>) {
    let control_plane = shared().await;
    let nodes = Nodes::new(2)
        .scope(prefix)
        .create(control_plane)
        .await
        .unwrap();
    let namespace = TestNamespace::create(control_plane, prefix).await.unwrap();
    let api = namespace.api();
    (namespace, nodes, api)
}

async fn create(api: &Api<Pod>, name: &str, node: &str, annotations: Value) {
    api.create(&PostParams::default(), &pod(name, node, annotations))
        .await
        .unwrap();
}

async fn annotate(api: &Api<Pod>, name: &str, key: &str, value: Option<&str>) {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

fn ended(pod: &Pod) -> ContainerStateTerminated {
    let status = pod.status.as_ref().unwrap();
    let container = &status.container_statuses.as_ref().unwrap()[0];
    container.state.clone().unwrap().terminated.unwrap()
}

fn condition(pod: &Pod, kind: &str) -> Option<String> {
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
async fn a_hundred_pods_with_a_node_run() {
    let (_namespace, nodes, api) = place("hundred").await;
    stream::iter(0..100)
        .map(|index| {
            let pod = pod(&format!("p-{index}"), &nodes.names()[index % 2], json!({}));
            let api = api.clone();
            async move { api.create(&PostParams::default(), &pod).await }
        })
        .buffer_unordered(16)
        .try_collect::<Vec<Pod>>()
        .await
        .unwrap();
    let pods = eventually(Duration::from_secs(60), || async {
        let pods = api.list(&ListParams::default()).await?;
        let running = pods.iter().filter(|pod| phase(pod) == "Running").count();
        anyhow::ensure!(running == 100, "{running} of 100 run");
        Ok(pods)
    })
    .await
    .unwrap();
    let mut addresses = std::collections::BTreeSet::new();
    for pod in &pods {
        for kind in ["PodScheduled", "Initialized", "ContainersReady", "Ready"] {
            assert_eq!(condition(pod, kind).as_deref(), Some("True"), "{kind}");
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
    assert_eq!(addresses.len(), 100, "an address each");
}

#[tokio::test]
async fn pods_exit_as_told_also_when_told_later() {
    let (_namespace, nodes, api) = place("exit").await;
    let node = &nodes.names()[0];
    create(&api, "fails", node, json!({kubelet::EXIT: "3"})).await;
    create(&api, "succeeds", node, json!({kubelet::EXIT: "0"})).await;
    create(&api, "late", node, json!({})).await;
    let oom = json!({kubelet::EXIT: "0", kubelet::EXIT_REASON: "OOMKilled"});
    create(&api, "child-oom", node, oom).await;

    let failed = wait_for(&api, "fails", SOON, |pod| phase(pod) == "Failed")
        .await
        .unwrap();
    assert_eq!(
        (ended(&failed).exit_code, ended(&failed).reason.as_deref()),
        (3, Some("Error"))
    );
    assert_eq!(condition(&failed, "Ready").as_deref(), Some("False"));
    assert_eq!(condition(&failed, "PodScheduled").as_deref(), Some("True"));

    let succeeded = wait_for(&api, "succeeds", SOON, |pod| phase(pod) == "Succeeded")
        .await
        .unwrap();
    assert_eq!(ended(&succeeded).reason.as_deref(), Some("Completed"));

    let oom = wait_for(&api, "child-oom", SOON, |pod| phase(pod) == "Succeeded")
        .await
        .unwrap();
    assert_eq!(
        (ended(&oom).exit_code, ended(&oom).reason.as_deref()),
        (0, Some("OOMKilled"))
    );

    wait_for(&api, "late", SOON, |pod| phase(pod) == "Running")
        .await
        .unwrap();
    annotate(&api, "late", kubelet::EXIT, Some("137")).await;
    let late = wait_for(&api, "late", SOON, |pod| phase(pod) == "Failed")
        .await
        .unwrap();
    assert_eq!(ended(&late).exit_code, 137);
}

#[tokio::test]
async fn a_pod_runs_for_as_long_as_told() {
    let (_namespace, nodes, api) = place("run-for").await;
    let node = &nodes.names()[0];
    create(&api, "short", node, json!({kubelet::RUN_FOR: "2s"})).await;
    create(
        &api,
        "crashes",
        node,
        json!({kubelet::RUN_FOR: "2s", kubelet::EXIT: "1"}),
    )
    .await;
    let short = wait_for(&api, "short", SOON, |pod| phase(pod) == "Succeeded")
        .await
        .unwrap();
    let short = ended(&short);
    let (started, finished) = (short.started_at.unwrap(), short.finished_at.unwrap());
    let ran = finished.0.duration_since(started.0);
    assert!(ran.as_secs() >= 2, "{ran}");
    assert_eq!(short.exit_code, 0);
    let crashed = wait_for(&api, "crashes", SOON, |pod| phase(pod) == "Failed")
        .await
        .unwrap();
    assert_eq!(ended(&crashed).exit_code, 1);
}

#[tokio::test]
async fn a_refused_pod_looks_as_a_real_kubelet_leaves_it() {
    let (_namespace, nodes, api) = place("refuse").await;
    let [first, second] = nodes.names() else {
        panic!("two nodes")
    };
    let refuse = json!({kubelet::REFUSE: "OutOfnvidia.com/gpu"});
    create(&api, "refused", first, refuse).await;
    let here = json!({kubelet::REFUSE: "OutOfcpu", kubelet::REFUSE_ON: first});
    create(&api, "refused-here", first, here.clone()).await;
    create(&api, "welcome-there", second, here).await;

    let refused = wait_for(&api, "refused", SOON, |pod| phase(pod) == "Failed")
        .await
        .unwrap();
    let status = refused.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("OutOfnvidia.com/gpu"));
    assert!(status.start_time.is_some());
    assert!(status.container_statuses.is_none());
    assert!(status.conditions.is_none());
    wait_for(&api, "refused-here", SOON, |pod| phase(pod) == "Failed")
        .await
        .unwrap();
    wait_for(&api, "welcome-there", SOON, |pod| phase(pod) == "Running")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_pod_hangs_until_it_may_start() {
    let (_namespace, nodes, api) = place("hang").await;
    create(
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
    assert_eq!(phase(&hanging), "Pending");
    assert_eq!(condition(&hanging, "PodScheduled").as_deref(), Some("True"));
    assert_eq!(condition(&hanging, "Ready").as_deref(), Some("False"));
    let status = hanging.status.unwrap();
    let state = status.container_statuses.unwrap()[0].state.clone().unwrap();
    assert_eq!(
        state.waiting.unwrap().reason.as_deref(),
        Some("ContainerCreating")
    );
    annotate(&api, "hangs", kubelet::HANG, None).await;
    let started = wait_for(&api, "hangs", SOON, |pod| phase(pod) == "Running")
        .await
        .unwrap();
    assert_eq!(condition(&started, "Ready").as_deref(), Some("True"));
}

#[tokio::test]
async fn deleted_pods_go_at_once_slowly_or_not_at_all() {
    let (_namespace, nodes, api) = place("delete").await;
    let node = &nodes.names()[0];
    create(&api, "plain", node, json!({})).await;
    create(&api, "slow", node, json!({kubelet::STOP_AFTER: "2s"})).await;
    create(
        &api,
        "stuck",
        node,
        json!({kubelet::STUCK_TERMINATING: "true"}),
    )
    .await;
    for name in ["plain", "slow", "stuck"] {
        wait_for(&api, name, SOON, |pod| phase(pod) == "Running")
            .await
            .unwrap();
    }
    let deleted = std::time::Instant::now();
    for name in ["plain", "slow", "stuck"] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    wait_gone(&api, "plain", SOON).await.unwrap();
    wait_gone(&api, "slow", SOON).await.unwrap();
    assert!(
        deleted.elapsed() > Duration::from_millis(1900),
        "{:?}",
        deleted.elapsed()
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stuck = api.get("stuck").await.unwrap();
    assert!(stuck.metadata.deletion_timestamp.is_some());
    assert_eq!(phase(&stuck), "Running");
    annotate(&api, "stuck", kubelet::STUCK_TERMINATING, None).await;
    wait_gone(&api, "stuck", SOON).await.unwrap();
}

/// Creates the pod in the very moment in which the one of its name is gone.
async fn replace(api: &Api<Pod>, pod: &Pod) -> Pod {
    let create = async || {
        loop {
            match api.create(&PostParams::default(), pod).await {
                Ok(created) => return created,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    // Several at a time, to come close to that moment.
    tokio::select! {
        created = create() => created,
        created = create() => created,
        created = create() => created,
    }
}

#[tokio::test]
async fn a_pod_that_comes_after_one_of_its_name_is_left_alone() {
    let (_namespace, nodes, api) = place("again").await;
    let again = pod("again", &nodes.names()[0], json!({}));
    api.create(&PostParams::default(), &again).await.unwrap();
    for _ in 0..30 {
        wait_for(&api, "again", SOON, |pod| phase(pod) == "Running")
            .await
            .unwrap();
        api.delete("again", &DeleteParams::default()).await.unwrap();
        let new = replace(&api, &again).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = api.get("again").await.unwrap();
        assert_eq!(now.metadata.uid, new.metadata.uid);
        assert!(now.metadata.deletion_timestamp.is_none());
    }
}
