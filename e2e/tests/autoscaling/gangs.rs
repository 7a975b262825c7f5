//! Jobs that start on new nodes.

use std::time::Duration;

use anyhow::ensure;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::growing_site::GrowingSite;

/// Time in which a second purchase would show. Karpenter looks at pending pods every second.
const SETTLED: Duration = Duration::from_secs(15);

#[tokio::test]
async fn gang_of_sixteen_starts_on_sixteen_new_nodes_and_no_more_are_bought() {
    let site = GrowingSite::new("sixteen", 0, 64, |pool| pool.registration_delay("2s")).await;
    let job = site.submit_gang("train", 16).await;
    let waiting = site
        .wait_for_phase_and_reason("train", JobPhase::Queued, Reason::Provisioning)
        .await;
    let message = waiting.status.unwrap().message.unwrap();
    assert!(message.contains("16 new nodes of flavor"), "{message}");
    site.wait_for_phase("train", JobPhase::Running).await;
    site.wait_for_whole_gang("train", 16).await;
    eventually(SOON, || async {
        let left = site.placeholder_jobs(&job).await;
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await
    .unwrap();
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 16);
    assert_eq!(site.pool.lost_claims().len(), 0);
}

#[tokio::test]
async fn free_nodes_are_used_and_only_the_rest_is_bought() {
    let site = GrowingSite::new("rest", 3, 64, |pool| pool).await;
    site.submit_gang("train", 5).await;
    site.wait_for_phase("train", JobPhase::Running).await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 2);
}

#[tokio::test]
async fn nothing_is_bought_for_a_job_beyond_quota_or_the_limit_of_its_flavor() {
    let site = GrowingSite::new("beyond", 0, 2, |pool| pool).await;
    site.apply_queue(16).await;
    site.submit_gang("quota", 3).await;
    site.wait_until_queued_for("quota", Reason::ExceedsQuota)
        .await;
    site.apply_queue(1_000).await;
    site.wait_until_queued_for("quota", Reason::NoMatchingNodes)
        .await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(site.pool.claims().len(), 0);
    // The operator works: a job within both limits gets its nodes.
    site.submit_gang("fits", 2).await;
    site.wait_for_phase("fits", JobPhase::Running).await;
    assert_eq!(site.pool.claims().len(), 2);
}

#[tokio::test]
async fn deleted_job_leaves_neither_placeholders_nor_nodes() {
    // The pool never gets enough nodes for the job.
    let site = GrowingSite::new("deleted", 0, 64, |pool| pool.limit("nvidia.com/gpu", "8")).await;
    let job = site.submit_gang("train", 2).await;
    site.pool.wait_for_claims(1).await.unwrap();
    site.delete::<trellis_api::TrainingJob>("train").await;
    eventually(SOON, || async {
        let left = site.placeholder_jobs(&job).await;
        ensure!(left.is_empty(), "{left:?}");
        let lost = site.pool.lost_claims().len();
        ensure!(lost == 1, "{lost} nodes are removed");
        Ok(())
    })
    .await
    .unwrap();
}
