//! No operator is there.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::SOON;
use trellis_e2e::operator::give_lease_back;
use trellis_e2e::visibility;
use trellis_e2e::wait::{eventually, wait_gone};

use crate::scene::{Scene, program};

/// How long a deletion takes that waits for nothing.
const GONE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_go_on_and_a_namespace_that_goes_is_emptied_and_ends_with_the_next_operator() {
    let mut scene = Scene::new().await.unwrap();
    let site = scene.site("down", 1).await;
    site.submit("runs", 1, 8).await;
    site.reaches("runs", JobPhase::Running).await;
    let pods = site.whole("runs", 1).await;
    scene.operator.kill().unwrap();
    let control_plane = &scene.control_plane;
    let why = visibility::becomes(control_plane, false).await.unwrap();
    assert!(why.contains("FailedDiscoveryCheck"), "{why}");

    // Running jobs go on, and new jobs are accepted.
    let admin = control_plane.kubeconfig();
    let (ok, said) = scene.kubectl(&admin, &["get", "jst", "-A"]).await;
    assert!(!ok, "{said}");
    site.submit("later", 1, 8).await;
    let now = site.whole("runs", 1).await;
    assert_eq!(pods[0].metadata.uid, now[0].metadata.uid);

    // A namespace is emptied; it is not gone before the API server can ask again what there is.
    let namespaces: Api<Namespace> = Api::all(control_plane.client());
    let name = "goes-meanwhile";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    control_plane
        .apply_yaml(&namespace.to_string())
        .await
        .unwrap();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    let object = object.to_string();
    let applied = control_plane.apply_yaml_in(name, &object).await;
    applied.unwrap();
    namespaces
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    let config_maps: Api<ConfigMap> = Api::namespaced(control_plane.client(), name);
    eventually(GONE, || async {
        let left = config_maps.list(&ListParams::default()).await?;
        ensure!(left.items.is_empty(), "{} are left", left.items.len());
        Ok(())
    })
    .await
    .unwrap();
    let waits = eventually(SOON, || async {
        let namespace = namespaces.get(name).await?;
        let conditions = namespace.status.and_then(|status| status.conditions);
        let mut conditions = conditions.into_iter().flatten();
        let failure = conditions.find(|c| c.type_ == "NamespaceDeletionDiscoveryFailure");
        let failure = failure.context("nothing is said of it")?;
        ensure!(failure.status == "True", "{failure:?}");
        Ok(failure.message.unwrap_or_default())
    });
    let waits = waits.await.unwrap();
    assert!(waits.contains("visibility.trellis.dev"), "{waits}");

    give_lease_back(control_plane).await.unwrap();
    let _next = visibility::start(control_plane, program(), scene.port)
        .await
        .unwrap();
    visibility::becomes(control_plane, true).await.unwrap();
    wait_gone(&namespaces, name, GONE * 5).await.unwrap();
    site.reaches("runs", JobPhase::Running).await;
}

/// The workaround of docs/endpoint.md for users who cannot wait for an operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_api_service_a_namespace_ends_though_no_operator_is_there() {
    let mut scene = Scene::new().await.unwrap();
    scene.operator.kill().unwrap();
    let control_plane = &scene.control_plane;
    visibility::becomes(control_plane, false).await.unwrap();
    let admin = control_plane.kubeconfig();
    let name = visibility_name();
    let (ok, said) = scene.kubectl(&admin, &["delete", "apiservice", name]).await;
    assert!(ok, "{said}");
    let namespaces: Api<Namespace> = Api::all(control_plane.client());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "goes"}});
    control_plane
        .apply_yaml(&namespace.to_string())
        .await
        .unwrap();
    namespaces
        .delete("goes", &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&namespaces, "goes", GONE).await.unwrap();
}

fn visibility_name() -> &'static str {
    trellis_api::visibility::API_SERVICE
}
