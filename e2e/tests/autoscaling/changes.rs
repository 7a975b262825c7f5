//! Jobs that change while nodes are on order for them.

use anyhow::ensure;
use k8s_openapi::api::batch::v1::Job;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, Reason};
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::SETTLED;
use crate::growing_site::GrowingSite;
use crate::ordering_site::{OrderingOptions, OrderingSite};

const CHANGED_IMAGE: &str = "registry.example/train:2.0";

#[tokio::test]
async fn suspended_job_gives_up_the_nodes_on_order() {
    // The pool never gets enough nodes for the job.
    let site = GrowingSite::new("suspend", OrderingOptions::default(), |pool| {
        pool.limit("nvidia.com/gpu", "8")
    })
    .await;
    let job = site.submit_gang("train", 2).await;
    site.pool.wait_for_claims(1).await.unwrap();
    let patch = json!({"spec": {"suspend": true}});
    site.patch("train", patch).await.unwrap();
    site.wait_for_phase("train", JobPhase::Suspended).await;
    site.wait_until_no_placeholders(&job).await;
    eventually(SOON, || async {
        let group = site.api::<PodGroup>().get("train").await?;
        let journal = group.status.unwrap_or_default();
        let phase = journal.phase.unwrap_or_default();
        let is_clear = phase == PodGroupPhase::Pending && journal.provisioning.is_none();
        ensure!(is_clear, "{journal:?}");
        Ok(())
    })
    .await
    .unwrap();
    site.wait_for_lost_claims(1).await;
    assert_eq!(site.pool.claims().len(), 1);
}

/// The nodes on order serve the changed job: its placeholders take the place of the earlier ones
/// before the nodes have come.
#[tokio::test]
async fn changed_job_gets_a_new_order_and_no_further_nodes() {
    let site = GrowingSite::new("change", OrderingOptions::default(), |pool| {
        pool.registration_delay("20s")
    })
    .await;
    let job = site.submit_gang("train", 2).await;
    site.pool.wait_for_claims(2).await.unwrap();
    let before = site.placeholders::<Job>(&job).await;
    let mut groups = serde_json::to_value(&job.spec.task_groups).unwrap();
    groups[0]["image"] = json!(CHANGED_IMAGE);
    let patch = json!({"spec": {"taskGroups": groups}});
    site.patch("train", patch).await.unwrap();
    eventually(SOON, || async {
        let now = site.placeholders::<Job>(&job).await;
        let is_new = now.len() == 1 && before.len() == 1 && now != before;
        ensure!(is_new, "{before:?}, {now:?}");
        Ok(())
    })
    .await
    .unwrap();
    site.wait_until_running("train").await;
    let pods = site.wait_for_whole_gang("train", 2).await;
    for pod in &pods {
        let image = pod.spec.as_ref().unwrap().containers[0].image.as_deref();
        assert_eq!(image, Some(CHANGED_IMAGE));
    }
    site.wait_until_no_placeholders(&job).await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 2);
    assert_eq!(site.pool.lost_claims().len(), 0);
}

/// The pool never gets enough nodes for the job, so that only the change can end the order. After it,
/// the message of the job must contain the text that `change` returns.
async fn order_ends_by_a_change(prefix: &str, change: impl AsyncFn(&OrderingSite) -> String) {
    let site = GrowingSite::new(prefix, OrderingOptions::default(), |pool| {
        pool.limit("nvidia.com/gpu", "8")
    })
    .await;
    let job = site.submit_gang("train", 2).await;
    site.pool.wait_for_claims(1).await.unwrap();
    let words = change(&site).await;
    site.wait_for_status("train", |status| {
        status.reason != Some(Reason::Provisioning) && status.full_message().contains(&words)
    })
    .await;
    site.wait_until_no_placeholders(&job).await;
    site.wait_for_lost_claims(1).await;
    assert_eq!(site.pool.claims().len(), 1);
}

#[tokio::test]
async fn order_ends_if_its_flavor_loses_provisioning() {
    order_ends_by_a_change("flavor-change", async |site| {
        site.stop_flavor().await;
        String::new()
    })
    .await;
}

#[tokio::test]
async fn order_ends_if_its_queue_permits_no_new_nodes_any_more() {
    order_ends_by_a_change("queue-change", async |site| {
        site.apply_queue_with_order("Never", &[(site.name(), 1_000)])
            .await;
        "permits no new nodes".to_owned()
    })
    .await;
}

#[tokio::test]
async fn order_ends_if_a_later_policy_denies_its_nodes() {
    order_ends_by_a_change("policy-change", async |site| {
        site.deny_new_nodes().await;
        site.denial_words()
    })
    .await;
}
