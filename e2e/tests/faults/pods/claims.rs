//! The controller manager is stopped while a claim is being bound.

use anyhow::ensure;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::names;
use trellis_e2e::control_plane::Component;
use trellis_e2e::process::ProcessSignal;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::volumes::{disk_yaml, late_binding_claim_yaml, late_binding_class_yaml};
use trellis_e2e::wait::{eventually, wait_for};

use crate::fixtures::FaultFixture;

/// A volume that is reserved for a claim but not bound yet is released when the plan is rolled
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volume_of_an_unbound_claim_is_released_with_its_plan() {
    let FaultFixture {
        control_plane,
        operator: _operator,
        proxy: _proxy,
        site,
    } = FaultFixture::new("given", 1).await;
    let class = site.name();
    for yaml in [
        late_binding_class_yaml(class, None),
        late_binding_claim_yaml(class, "data", class, "ReadWriteOnce", "1Gi"),
        disk_yaml(class, class, &site.nodes().names()[0]),
    ] {
        control_plane.apply_yaml(&yaml).await.unwrap();
    }
    let volumes: Api<PersistentVolume> = Api::all(control_plane.client());
    let matches = |volume: &PersistentVolume| {
        let phase = volume.status.as_ref().and_then(|s| s.phase.as_deref());
        phase == Some("Available")
    };
    wait_for(&volumes, class, SOON, matches).await.unwrap();
    let manager = |signal| control_plane.signal(Component::ControllerManager, signal);
    manager(ProcessSignal::Stop).unwrap();
    let mut job = site.job("j", 1, 1);
    job["spec"]["taskGroups"][0]["mounts"] = json!([{"claimName": "data", "path": "/data"}]);
    site.create(job).await.unwrap();
    let is_given = |volume: &PersistentVolume| {
        let claim = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
        claim.is_some_and(|claim| claim.name.as_deref() == Some("data"))
    };
    wait_for(&volumes, class, SOON, is_given).await.unwrap();
    assert!(
        site.list_pods("j").await.is_empty(),
        "a pod exists before the claim is bound"
    );
    let suspend = |suspend: bool| json!({"spec": {"suspend": suspend}});
    site.patch("j", suspend(true)).await.unwrap();
    eventually(SOON, || async {
        let volume = volumes.get(class).await?;
        let annotations = volume.annotations();
        let remaining = ["pv.kubernetes.io/bound-by-controller", names::PLAN];
        let remaining = remaining.iter().find(|key| annotations.contains_key(**key));
        ensure!(remaining.is_none() && !is_given(&volume), "{volume:?}");
        Ok(())
    })
    .await
    .unwrap();
    manager(ProcessSignal::Continue).unwrap();
    site.patch("j", suspend(false)).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    site.wait_for_whole_gang("j", 1).await;
}
