//! Core ResourceQuotas of a namespace: what gangs need together, and when one is tried again.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::history::PodHistory;

use super::{shared, site};

#[tokio::test]
async fn of_two_gangs_that_fit_a_quota_only_one_at_a_time_one_starts_and_the_other_never_tries() {
    let site = site("together", 0).await;
    site.limit_pods(5).await;
    let history = PodHistory::record(site.api::<Pod>());
    for job in ["a", "b"] {
        site.submit(job, 4, 1).await;
        site.reaches(job, JobPhase::Queued).await;
    }
    // Both are placed in one cycle, and judged at once.
    let nodes = site.more_nodes(shared().await, Nodes::new(2).gpus(8)).await;
    let refused =
        |s: &trellis_api::job::TrainingJobStatus| s.reason == Some(Reason::ResourceQuotaExceeded);
    let (runs, waits) = tokio::select! {
        _ = site.becomes("a", refused) => ("b", "a"),
        _ = site.becomes("b", refused) => ("a", "b"),
    };
    site.reaches(runs, JobPhase::Running).await;
    site.whole(runs, 4).await;
    assert!(history.twice().is_empty(), "{:?}", history.twice());
    let seen = history.seen();
    assert!(seen.keys().all(|pod| pod.starts_with(runs)), "{seen:?}");

    // Room is made: it need not wait for the end of its back-off, which grows meanwhile.
    let patch = json!({"spec": {"hard": {"pods": "8"}}});
    site.api::<ResourceQuota>()
        .patch("pods", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    site.reaches(waits, JobPhase::Running).await;
    site.whole(waits, 4).await;
    drop(nodes);
}

#[tokio::test]
async fn a_gang_that_is_undone_waits_though_its_own_pods_make_room_in_a_quota() {
    let site = site("backoff", 1).await;
    let last_is_refused = PodPolicy::refuse_unless(
        shared().await,
        site.name(),
        "object.metadata.name != 'j-worker-3'",
        "the last pod is refused",
    );
    last_is_refused.await.unwrap();
    site.limit_pods(100).await;
    let history = PodHistory::record(site.api::<Pod>());
    site.submit("j", 4, 1).await;
    site.becomes("j", |s| s.reason == Some(Reason::PodRefused))
        .await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    // At 0, and after 5 s and 10 s more, each counted from its undoing.
    let tries = history.seen().values().map(|uids| uids.len()).max();
    assert!(
        tries.is_some_and(|tries| (1..=3).contains(&tries)),
        "{:?}",
        history.seen()
    );
}
