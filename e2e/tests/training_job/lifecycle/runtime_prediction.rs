//! Runtime prediction from earlier runs of a job.

use anyhow::ensure;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_until_deleted};
use trellis_e2e::{endpoint, operator};

use crate::queues::preemption::{create_ordered_queue, submit_to_queue};
use crate::{create_site, shared_control_plane};

#[tokio::test]
async fn expected_start_is_predicted_from_an_earlier_run() {
    let site = create_site("runtimes", 1).await;
    // All runs of a queue affect its predictions, so jobs of other tests must not use this queue.
    let (queue, _) = create_ordered_queue(&site).await;
    submit_to_queue(&site, "llm", 1, &queue, None).await;
    site.wait_for_phase("llm", JobPhase::Running).await;
    // The job has no prediction: it has no limit and has not run before.
    submit_to_queue(&site, "early", 1, &queue, None).await;
    site.wait_for_phase("early", JobPhase::Queued).await;
    let early = expected_start_message(&site, "early").await;
    assert!(!early.contains("starts at"), "{early}");
    site.delete::<TrainingJob>("early").await;

    site.end_pod("llm-worker-0", "0").await;
    site.wait_for_phase("llm", JobPhase::Complete).await;
    site.delete::<TrainingJob>("llm").await;
    wait_until_deleted(&site.api::<TrainingJob>(), "llm", SOON)
        .await
        .unwrap();
    site.wait_for_pod_count("llm", 0).await;
    submit_to_queue(&site, "llm", 1, &queue, None).await;
    site.wait_for_phase("llm", JobPhase::Running).await;
    submit_to_queue(&site, "next", 1, &queue, None).await;
    site.wait_for_phase("next", JobPhase::Queued).await;
    // The operator computes expected starts in the background.
    eventually(SOON, || async {
        let next = expected_start_message(&site, "next").await;
        ensure!(next.contains("starts at"), "{next}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Returns the operator's message about a pending job, with its expected start.
async fn expected_start_message(site: &TestSite, name: &str) -> String {
    let operator = operator::shared_operator().unwrap();
    let control_plane = shared_control_plane().await;
    let waiting = endpoint::wait_for_pending_job(operator, control_plane, (site, name)).await;
    waiting.unwrap().message
}
