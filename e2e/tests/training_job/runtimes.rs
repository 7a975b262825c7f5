//! How long a job runs is learned from its earlier runs.

use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::{SOON, message};
use trellis_e2e::wait::wait_gone;

use super::site;

#[tokio::test]
async fn the_next_run_of_a_job_tells_others_when_it_ends() {
    let site = site("runtimes", 1).await;
    site.submit("llm", 1, 8).await;
    site.reaches("llm", JobPhase::Running).await;
    // Nothing is known of it: it has no limit, and has not run before.
    site.submit("early", 1, 8).await;
    let early = site.reaches("early", JobPhase::Queued).await;
    assert!(
        !message(&early).contains("starts at"),
        "{}",
        message(&early)
    );
    site.delete::<TrainingJob>("early").await;

    site.exit("llm-worker-0", "0").await;
    site.reaches("llm", JobPhase::Complete).await;
    site.delete::<TrainingJob>("llm").await;
    wait_gone(&site.api::<TrainingJob>(), "llm", SOON)
        .await
        .unwrap();
    site.pods_become("llm", 0).await;
    site.submit("llm", 1, 8).await;
    site.reaches("llm", JobPhase::Running).await;
    site.submit("next", 1, 8).await;
    let next = site.reaches("next", JobPhase::Queued).await;
    assert!(message(&next).contains("starts at"), "{}", message(&next));
}
