//! External pods are listed among the pending and running jobs.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::visibility::{Explanation, JobState};
use trellis_e2e::cluster::SCOPE_LABEL;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::shared_fixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn external_pods_are_listed_with_their_state_and_reason() {
    let scene = shared_fixture().await;
    let site = scene.create_site("external", 1).await;
    scene.create_queue(&site, 6).await;
    let pods = site.api::<Pod>();
    let api: Api<JobState> = Api::namespaced(scene.control_plane.client(), site.name());
    for (name, phase, reason) in [
        ("runs", JobPhase::Running, None),
        ("waits", JobPhase::Queued, Some(Reason::QuotaExceeded)),
    ] {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"trellis.dev/queue": site.name()}},
            "spec": {
                "schedulerName": "trellis", "nodeSelector": {SCOPE_LABEL: site.name()},
                "containers": [{"name": "main", "image": "registry.example/train:1.0",
                    "resources": {"limits": {"nvidia.com/gpu": "4"}}}],
            },
        }))
        .unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let listed = eventually(SOON, || async {
            let all = api.list(&ListParams::default()).await?.items;
            let called = format!("pod.{name}");
            let row = all
                .iter()
                .find(|row| row.metadata.name.as_ref() == Some(&called));
            let phase_and_reason = row.map(|row| (row.phase, row.reason));
            ensure!(
                phase_and_reason == Some((Some(phase), reason)),
                "{name}: {all:?}"
            );
            Ok(())
        });
        listed.await.unwrap();
    }
    // An external pod can be read by its name in the list.
    let row = api.get("pod.waits").await.unwrap();
    assert_eq!(row.position, Some(1), "{row:?}");
    let explanations: Api<Explanation> = Api::namespaced(scene.control_plane.client(), site.name());
    let listed = explanations.get("pod.waits").await.unwrap();
    assert_eq!(listed.reason, Some(Reason::QuotaExceeded), "{listed:?}");
    let raised = &listed.smallest_change.as_ref().unwrap().raise_quotas;
    assert_eq!(raised[0].by.as_str(), "2", "{listed:?}");
    let running = explanations.get("pod.runs").await.unwrap_err();
    assert!(running.to_string().contains("its own status"), "{running}");
}
