//! Jobs that start on new nodes.

use trellis_api::Reason;
use trellis_api::job::JobPhase;

use crate::SETTLED;
use crate::growing_site::GrowingSite;
use crate::ordering_site::OrderingOptions;

#[tokio::test]
async fn gang_of_sixteen_starts_on_sixteen_new_nodes_and_no_more_are_bought() {
    let site = GrowingSite::new("sixteen", OrderingOptions::default(), |pool| {
        pool.registration_delay("2s")
    })
    .await;
    let job = site.submit_gang("train", 16).await;
    let waiting = site
        .wait_for_phase_and_reason("train", JobPhase::Queued, Reason::Provisioning)
        .await;
    let message = waiting.status.unwrap().message.unwrap();
    assert!(message.contains("16 new nodes of flavor"), "{message}");
    site.wait_until_running("train").await;
    site.wait_for_whole_gang("train", 16).await;
    site.wait_until_no_placeholders(&job).await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 16);
    assert_eq!(site.pool.lost_claims().len(), 0);
}

#[tokio::test]
async fn free_nodes_are_used_and_only_the_rest_is_bought() {
    let options = OrderingOptions {
        nodes: 3,
        ..OrderingOptions::default()
    };
    let site = GrowingSite::new("rest", options, |pool| pool).await;
    site.submit_gang("train", 5).await;
    site.wait_until_running("train").await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 2);
}

#[tokio::test]
async fn deleted_job_leaves_neither_placeholders_nor_nodes() {
    // The pool never gets enough nodes for the job.
    let site = GrowingSite::new("deleted", OrderingOptions::default(), |pool| {
        pool.limit("nvidia.com/gpu", "8")
    })
    .await;
    let job = site.submit_gang("train", 2).await;
    site.pool.wait_for_claims(1).await.unwrap();
    site.delete::<trellis_api::TrainingJob>("train").await;
    site.wait_until_no_placeholders(&job).await;
    site.wait_for_lost_claims(1).await;
    assert_eq!(site.pool.claims().len(), 1);
}
