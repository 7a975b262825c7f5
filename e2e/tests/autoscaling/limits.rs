//! Jobs beyond the limits of a pool, of a flavor or of quota.

use k8s_openapi::api::core::v1::ResourceQuota;
use trellis_api::{JobPolicy, Reason, TrainingJob};
use trellis_e2e::karpenter::NodePoolTemplate;
use trellis_e2e::site::jobs::message;

use crate::growing_site::GrowingSite;
use crate::ordering_site::OrderingOptions;
use crate::{SETTLED, shared_control_plane};

#[tokio::test]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn job_starts_on_the_next_flavor_after_a_pool_cannot_fill_its_order() {
    let options = OrderingOptions {
        timeout_seconds: 60,
        ..OrderingOptions::default()
    };
    let site = GrowingSite::new("next", options, |pool| pool.limit("nvidia.com/gpu", "16")).await;
    let second = NodePoolTemplate::new(&format!("{}-second", site.name()))
        .create(shared_control_plane().await)
        .await
        .unwrap();
    site.apply_flavor(second.name()).await;
    site.apply_queue(&[(site.name(), 1_000), (second.name(), 1_000)])
        .await;
    let job = site.submit_gang("train", 3).await;
    site.wait_until_running("train").await;
    site.wait_for_whole_gang("train", 3).await;
    site.wait_until_no_placeholders(&job).await;
    site.wait_for_lost_claims(2).await;
    assert_eq!(site.pool.claims().len(), 2);
    assert_eq!(second.claims().len(), 3);
    assert_eq!(second.lost_claims().len(), 0);
}

#[tokio::test]
async fn gang_beyond_max_nodes_reuses_the_nodes_of_an_ended_gang() {
    let options = OrderingOptions {
        max_nodes: 3,
        ..OrderingOptions::default()
    };
    let site = GrowingSite::new("full", options, |pool| pool).await;
    site.submit_gang("first", 2).await;
    site.submit_gang("second", 2).await;
    site.wait_until_running("first").await;
    let words = "maxNodes permits only 1 new node of flavor";
    site.wait_for_status("second", |status| status.full_message().contains(words))
        .await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 2);
    for pod in ["first-worker-0", "first-worker-1"] {
        site.end_pod(pod, "0").await;
    }
    site.wait_until_running("second").await;
    assert_eq!(site.pool.claims().len(), 2);
    assert_eq!(site.pool.lost_claims().len(), 0);
}

#[tokio::test]
async fn no_node_is_bought_for_a_job_beyond_quota_or_max_nodes() {
    let options = OrderingOptions {
        max_nodes: 2,
        ..OrderingOptions::default()
    };
    let site = GrowingSite::new("beyond", options, |pool| pool).await;
    site.apply_queue(&[(site.name(), 16)]).await;
    site.submit_gang("quota", 3).await;
    site.wait_until_queued_for("quota", Reason::ExceedsQuota)
        .await;
    site.apply_queue(&[(site.name(), 1_000)]).await;
    site.wait_until_queued_for("quota", Reason::NoMatchingNodes)
        .await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 0);
    // The operator works: a job within both limits gets its nodes.
    site.submit_gang("fits", 2).await;
    site.wait_until_running("fits").await;
    assert_eq!(site.pool.claims().len(), 2);
}

#[tokio::test]
async fn no_node_is_bought_if_a_policy_denies_new_nodes() {
    let site = GrowingSite::new("forbidden", OrderingOptions::default(), |pool| pool).await;
    site.deny_new_nodes().await;
    site.submit_gang("train", 2).await;
    let words = site.denial_words();
    site.wait_for_status("train", |status| status.full_message().contains(&words))
        .await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 0);
    let job = site.api::<TrainingJob>().get("train").await.unwrap();
    assert!(message(&job).contains(&words), "{}", message(&job));
    site.delete::<JobPolicy>("no-nodes").await;
    site.wait_until_running("train").await;
    assert_eq!(site.pool.claims().len(), 2);
}

#[tokio::test]
async fn no_node_is_bought_for_a_job_beyond_a_resource_quota() {
    let site = GrowingSite::new("pods", OrderingOptions::default(), |pool| pool).await;
    site.create_pod_quota(1).await;
    site.submit_gang("train", 2).await;
    site.wait_until_queued_for("train", Reason::ResourceQuotaExceeded)
        .await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 0);
    site.delete::<ResourceQuota>("pods").await;
    site.wait_until_running("train").await;
    assert_eq!(site.pool.claims().len(), 2);
}

/// The pool can never fill the order of the first job.
#[tokio::test]
async fn no_node_is_bought_for_quota_that_is_promised_to_an_open_order() {
    let site = GrowingSite::new("promise", OrderingOptions::default(), |pool| {
        pool.limit("nvidia.com/gpu", "8")
    })
    .await;
    site.create_pod_quota(2).await;
    site.submit_gang("first", 2).await;
    site.wait_until_queued_for("first", Reason::Provisioning)
        .await;
    site.submit_gang("second", 1).await;
    let second = site
        .wait_until_queued_for("second", Reason::ResourceQuotaExceeded)
        .await;
    let words = "2 are promised to other gangs";
    assert!(message(&second).contains(words), "{}", message(&second));
    site.delete::<TrainingJob>("first").await;
    site.wait_until_running("second").await;
    assert_eq!(site.pool.claims().len(), 1);
}
