//! Core ResourceQuotas of a namespace: the check of concurrent gangs, and retries.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::site::pod_history::PodHistory;

use crate::{create_site, shared_control_plane};

#[tokio::test]
async fn second_gang_over_a_resource_quota_creates_no_pod() {
    let site = create_site("together", 0).await;
    site.create_pod_quota(5).await;
    let history = PodHistory::record(site.api::<Pod>());
    for job in ["a", "b"] {
        site.submit(job, 4, 1).await;
        site.wait_for_phase(job, JobPhase::Queued).await;
    }
    // Both gangs are placed in one cycle and checked together.
    let nodes = site
        .add_nodes(shared_control_plane().await, NodeTemplate::new(2).gpus(8))
        .await;
    let refused =
        |s: &trellis_api::job::TrainingJobStatus| s.reason == Some(Reason::ResourceQuotaExceeded);
    let (runs, pending) = tokio::select! {
        _ = site.wait_for_status("a", refused) => ("b", "a"),
        _ = site.wait_for_status("b", refused) => ("a", "b"),
    };
    site.wait_for_phase(runs, JobPhase::Running).await;
    site.wait_for_whole_gang(runs, 4).await;
    assert!(
        history.recreated_pods().is_empty(),
        "{:?}",
        history.recreated_pods()
    );
    let uids = history.uids_by_name();
    assert!(uids.keys().all(|pod| pod.starts_with(runs)), "{uids:?}");

    // Quota is freed. The gang does not have to wait for the end of its growing back-off.
    let patch = json!({"spec": {"hard": {"pods": "8"}}});
    site.api::<ResourceQuota>()
        .patch("pods", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    site.wait_for_phase(pending, JobPhase::Running).await;
    site.wait_for_whole_gang(pending, 4).await;
    drop(nodes);
}

#[tokio::test]
async fn rolled_back_gang_backs_off_although_its_pods_free_quota() {
    let site = create_site("backoff", 1).await;
    let last_is_refused = PodPolicy::refuse_unless(
        shared_control_plane().await,
        site.name(),
        "object.metadata.name != 'j-worker-3'",
        "the last pod is refused",
    );
    last_is_refused.await.unwrap();
    site.create_pod_quota(100).await;
    let history = PodHistory::record(site.api::<Pod>());
    site.submit("j", 4, 1).await;
    site.wait_for_status("j", |s| s.reason == Some(Reason::PodRefused))
        .await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    // The operator tries at 0, and then 5 s and 10 s after each rollback.
    let tries = history.uids_by_name().values().map(|uids| uids.len()).max();
    assert!(
        tries.is_some_and(|tries| (1..=3).contains(&tries)),
        "{:?}",
        history.uids_by_name()
    );
}
