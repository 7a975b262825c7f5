//! How long a job runs is learned from its earlier runs.

use anyhow::ensure;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::SOON;
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_gone};
use trellis_e2e::{endpoint, operator};

use super::{shared, site};

#[tokio::test]
async fn the_next_run_of_a_job_tells_others_when_it_ends() {
    let site = site("runtimes", 1).await;
    site.submit("llm", 1, 8).await;
    site.reaches("llm", JobPhase::Running).await;
    // Nothing is known of it: it has no limit, and has not run before.
    site.submit("early", 1, 8).await;
    site.reaches("early", JobPhase::Queued).await;
    let early = expected(&site, "early").await;
    assert!(!early.contains("starts at"), "{early}");
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
    site.reaches("next", JobPhase::Queued).await;
    // The operator computes expected starts in the background.
    eventually(SOON, || async {
        let next = expected(&site, "next").await;
        ensure!(next.contains("starts at"), "{next}");
        Ok(())
    })
    .await
    .unwrap();
}

/// The operator's message about a pending job, with its expected start.
async fn expected(site: &Site, name: &str) -> String {
    let operator = operator::of_all().unwrap();
    let control_plane = shared().await;
    let waiting = endpoint::waiting(operator, control_plane, (site, name)).await;
    waiting.unwrap().message
}
