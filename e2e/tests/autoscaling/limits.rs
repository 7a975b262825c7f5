//! Jobs beyond the limits of a pool, of a flavor or of quota.

use k8s_openapi::api::core::v1::ResourceQuota;
use serde_json::json;
use trellis_api::{JobPolicy, Reason, TrainingJob};
use trellis_e2e::control_plane::apply;
use trellis_e2e::karpenter::NodePoolTemplate;

use crate::growing_site::GrowingSite;
use crate::ordering_site::Growth;
use crate::{SETTLED, shared_control_plane};

#[tokio::test]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn order_that_a_pool_cannot_fill_ends_and_the_next_flavor_gets_the_nodes() {
    let growth = Growth {
        timeout_seconds: 60,
        ..Growth::default()
    };
    let site = GrowingSite::new("next", growth, |pool| pool.limit("nvidia.com/gpu", "16")).await;
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
async fn second_gang_beyond_the_limit_of_a_flavor_gets_the_nodes_of_the_first() {
    let growth = Growth {
        max_nodes: 3,
        ..Growth::default()
    };
    let site = GrowingSite::new("full", growth, |pool| pool).await;
    site.submit_gang("first", 2).await;
    site.submit_gang("second", 2).await;
    site.wait_until_running("first").await;
    site.wait_until_queued_for("second", Reason::InsufficientCapacity)
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
async fn nothing_is_bought_for_a_job_beyond_quota_or_the_limit_of_its_flavor() {
    let growth = Growth {
        max_nodes: 2,
        ..Growth::default()
    };
    let site = GrowingSite::new("beyond", growth, |pool| pool).await;
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
async fn nothing_is_bought_for_a_job_whose_new_nodes_policies_forbid() {
    let site = GrowingSite::new("forbidden", Growth::default(), |pool| pool).await;
    let policy = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "JobPolicy",
        "metadata": {"name": "no-nodes", "namespace": site.name()},
        "spec": {"cedar":
            "forbid(principal, action == Trellis::Action::\"ProvisionNodes\", resource);"},
    });
    apply(&site.client(), &policy.to_string(), site.name())
        .await
        .unwrap();
    site.submit_gang("train", 2).await;
    site.wait_for_status("train", |status| {
        let words = format!("which the policy \"{}/no-nodes/0\" forbids", site.name());
        status.full_message().contains(&words)
    })
    .await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 0);
    site.delete::<JobPolicy>("no-nodes").await;
    site.wait_until_running("train").await;
    assert_eq!(site.pool.claims().len(), 2);
}

#[tokio::test]
async fn nothing_is_bought_for_a_job_beyond_a_resource_quota_of_its_namespace() {
    let site = GrowingSite::new("pods", Growth::default(), |pool| pool).await;
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
async fn nothing_is_bought_for_a_job_whose_quota_is_promised_to_an_open_order() {
    let site = GrowingSite::new("promise", Growth::default(), |pool| {
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
    let message = second.status.unwrap().full_message().to_owned();
    assert!(
        message.contains("2 are promised to other gangs"),
        "{message}"
    );
    site.delete::<TrainingJob>("first").await;
    site.wait_until_running("second").await;
    assert_eq!(site.pool.claims().len(), 1);
}
