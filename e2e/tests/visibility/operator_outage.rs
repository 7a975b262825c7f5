//! Outage of the operator.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::operator::release_lease;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::visibility;
use trellis_e2e::wait::{eventually, wait_until_deleted};

use crate::fixtures::{VisibilityFixture, operator_program};

/// Longest time of a deletion without any delay.
const DELETION_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_deletion_finishes_with_the_next_operator_and_jobs_continue() {
    let mut scene = VisibilityFixture::new().await.unwrap();
    let site = scene.create_site("down", 1).await;
    site.submit("runs", 1, 8).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    let pods = site.wait_for_whole_gang("runs", 1).await;
    scene.operator.kill().unwrap();
    let control_plane = &scene.control_plane;
    let reason = visibility::wait_for_availability(control_plane, false)
        .await
        .unwrap();
    assert!(reason.contains("FailedDiscoveryCheck"), "{reason}");

    // Running jobs keep running, and new jobs are accepted.
    let admin = control_plane.kubeconfig();
    let (ok, output) = scene.run_kubectl(&admin, &["get", "jst", "-A"]).await;
    assert!(!ok, "{output}");
    site.submit("later", 1, 8).await;
    let now = site.wait_for_whole_gang("runs", 1).await;
    assert_eq!(pods[0].metadata.uid, now[0].metadata.uid);

    // The objects of a namespace are deleted, but the namespace remains until the API server can
    // list the kinds of the API group again.
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
    eventually(DELETION_TIMEOUT, || async {
        let remaining = config_maps.list(&ListParams::default()).await?;
        ensure!(
            remaining.items.is_empty(),
            "{} are left",
            remaining.items.len()
        );
        Ok(())
    })
    .await
    .unwrap();
    let pending = eventually(SOON, || async {
        let namespace = namespaces.get(name).await?;
        let conditions = namespace.status.and_then(|status| status.conditions);
        let mut conditions = conditions.into_iter().flatten();
        let failure = conditions.find(|c| c.type_ == "NamespaceDeletionDiscoveryFailure");
        let failure = failure.context("no condition reports the outage")?;
        ensure!(failure.status == "True", "{failure:?}");
        Ok(failure.message.unwrap_or_default())
    });
    let pending = pending.await.unwrap();
    assert!(pending.contains("visibility.trellis.dev"), "{pending}");

    release_lease(control_plane).await.unwrap();
    let _next = visibility::start(control_plane, operator_program(), scene.port)
        .await
        .unwrap();
    visibility::wait_for_availability(control_plane, true)
        .await
        .unwrap();
    wait_until_deleted(&namespaces, name, DELETION_TIMEOUT * 5)
        .await
        .unwrap();
    site.wait_for_phase("runs", JobPhase::Running).await;
}

/// The workaround of docs/endpoint.md for users who cannot wait for an operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_deletion_finishes_without_operator_and_api_service() {
    let mut scene = VisibilityFixture::new().await.unwrap();
    scene.operator.kill().unwrap();
    let control_plane = &scene.control_plane;
    visibility::wait_for_availability(control_plane, false)
        .await
        .unwrap();
    let admin = control_plane.kubeconfig();
    let name = api_service_name();
    let (ok, output) = scene
        .run_kubectl(&admin, &["delete", "apiservice", name])
        .await;
    assert!(ok, "{output}");
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
    wait_until_deleted(&namespaces, "goes", DELETION_TIMEOUT)
        .await
        .unwrap();
}

fn api_service_name() -> &'static str {
    trellis_api::visibility::API_SERVICE
}
