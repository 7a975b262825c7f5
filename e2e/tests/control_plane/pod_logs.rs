//! The logs of simulated pods. They have the lines of the options, or do not exist.

use std::time::Duration;

use futures::AsyncBufReadExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams, api::PostParams};
use serde_json::json;
use tokio::time::timeout;
use trellis_e2e::{
    cluster::NodeTemplate,
    control_plane::{ControlPlane, ControlPlaneOptions},
    site::namespace::TestNamespace,
    wait::wait_for,
};

use super::{SOON, pod_on_node, pod_phase, shared_control_plane};

/// Runs pod `a` on `node`.
async fn run_pod(api: &Api<Pod>, node: &str) {
    let pod = pod_on_node("a", node, json!({}));
    api.create(&PostParams::default(), &pod).await.unwrap();
    wait_for(api, "a", SOON, |pod| pod_phase(pod) == "Running")
        .await
        .unwrap();
}

#[tokio::test]
async fn simulated_pod_has_the_configured_log() {
    let options = ControlPlaneOptions {
        pod_log: vec!["step 1 loss 10.8".to_owned(), "step 2 loss 9.7".to_owned()],
        ..ControlPlaneOptions::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let nodes = NodeTemplate::new(1).create(&control_plane).await.unwrap();
    let api: Api<Pod> = Api::default_namespaced(control_plane.client());
    run_pod(&api, &nodes.names()[0]).await;

    let log = api.logs("a", &LogParams::default()).await.unwrap();
    assert_eq!(log, "step 1 loss 10.8\nstep 2 loss 9.7\n");
    let last = LogParams {
        tail_lines: Some(1),
        ..LogParams::default()
    };
    assert_eq!(api.logs("a", &last).await.unwrap(), "step 2 loss 9.7\n");

    let follow = LogParams {
        follow: true,
        ..last
    };
    let stream = api.log_stream("a", &follow).await.unwrap();
    futures::pin_mut!(stream);
    let mut line = String::new();
    let read = timeout(SOON, stream.read_line(&mut line)).await;
    read.expect("the log contains the line").unwrap();
    assert_eq!(line, "step 2 loss 9.7\n");
    let next_line = timeout(Duration::from_secs(1), stream.read_line(&mut line)).await;
    assert!(next_line.is_err(), "kwok has ended a followed stream");
}

#[tokio::test]
async fn api_server_cannot_reach_the_kubelet_without_a_pod_log() {
    let control_plane = shared_control_plane().await;
    let nodes = NodeTemplate::new(1)
        .scope("no-logs")
        .create(control_plane)
        .await;
    let nodes = nodes.unwrap();
    let namespace = TestNamespace::create(control_plane, "no-logs").await;
    let api: Api<Pod> = namespace.unwrap().api();
    run_pod(&api, &nodes.names()[0]).await;
    match api.logs("a", &LogParams::default()).await.unwrap_err() {
        // `trellis logs` detects the failure by this text.
        kube::Error::Api(status) => {
            assert!(status.message.starts_with("Get \"https://"), "{status:?}");
            assert!(status.message.contains("/containerLogs/"), "{status:?}");
        }
        error => panic!("{error:?}"),
    }
}
