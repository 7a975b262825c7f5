//! Faults of the control plane itself. Each test has its own control plane.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{Api, api::PostParams};
use serde_json::json;
use tokio::time::timeout;
use trellis_e2e::{
    cluster::NodeTemplate,
    control_plane::{Component, ControlPlane, ControlPlaneOptions, Kubelets},
    process::ProcessSignal,
    wait::eventually,
};

#[tokio::test]
async fn components_can_be_frozen_killed_and_restarted() {
    let options = ControlPlaneOptions {
        kubelets: Kubelets::None,
        ..ControlPlaneOptions::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let nodes = NodeTemplate::new(2).create(&control_plane).await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(control_plane.client());
    let config_map = serde_json::from_value(json!({"metadata": {"name": "kept"}})).unwrap();
    api.create(&PostParams::default(), &config_map)
        .await
        .unwrap();

    control_plane
        .signal(Component::ApiServer, ProcessSignal::Stop)
        .unwrap();
    let second = Duration::from_secs(1);
    assert!(
        timeout(second, api.get("kept")).await.is_err(),
        "a frozen API server has answered"
    );
    control_plane
        .signal(Component::ApiServer, ProcessSignal::Continue)
        .unwrap();
    eventually(Duration::from_secs(10), || async {
        Ok(api.get("kept").await?)
    })
    .await
    .unwrap();

    for component in [Component::ApiServer, Component::Etcd] {
        let before = control_plane.process_id(component).unwrap();
        control_plane
            .signal(component, ProcessSignal::Kill)
            .unwrap();
        assert!(
            timeout(second, api.get("kept"))
                .await
                .map_or(true, |answer| answer.is_err())
        );
        control_plane.restart(component).await.unwrap();
        assert_ne!(control_plane.process_id(component).unwrap(), before);
        eventually(Duration::from_secs(30), || async {
            Ok(api.get("kept").await?)
        })
        .await
        .unwrap();
    }
    assert!(
        control_plane
            .signal(Component::Kwok, ProcessSignal::Kill)
            .is_err(),
        "the component should not exist"
    );

    // A node without heartbeats stays Ready.
    let nodes_api: Api<Node> = Api::all(control_plane.client());
    let node = nodes_api.get(&nodes.names()[0]).await.unwrap();
    let ready = node.status.unwrap().conditions.unwrap();
    assert!(
        ready
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    );

    let folder = control_plane.folder().to_owned();
    assert!(folder.exists());
    control_plane.stop();
    assert!(!folder.exists());
}

#[tokio::test]
async fn failed_component_start_reports_the_reason() {
    let options = ControlPlaneOptions {
        api_server_flags: vec!["--no-such-flag=1".into()],
        ..ControlPlaneOptions::default()
    };
    let error = ControlPlane::start(options).await.unwrap_err();
    let error_text = format!("{error:#}");
    assert!(
        error_text.contains("kube-apiserver did not start"),
        "{error_text}"
    );
    assert!(
        error_text.contains("unknown flag: --no-such-flag"),
        "{error_text}"
    );
}
