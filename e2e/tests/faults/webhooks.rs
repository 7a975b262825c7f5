//! The webhook of one namespace is down or slow. The jobs of the namespace report it, and other
//! jobs do not wait.

use std::time::{Duration, Instant};

use trellis_api::job::JobPhase;
use trellis_api::{Reason, TrainingJob};
use trellis_e2e::admission::broken_webhook::BrokenWebhook;
use trellis_e2e::site::jobs::{TestJobs, message, phase};
use trellis_e2e::site::namespace::TestNamespace;
use trellis_e2e::wait::wait_for;

use super::fixtures::FaultFixture;

/// Number of jobs whose pods the API server sends to the webhook.
const JOB_COUNT: usize = 20;
/// Far less than the time of all hanging requests one after the other, and far more than a gang
/// needs on a busy machine.
const PLACEMENT_LIMIT: Duration = Duration::from_secs(30);
/// Longest time of a gang that the webhook has delayed. Each refusal makes its back-off longer.
const RETRY_TIMEOUT: Duration = Duration::from_secs(120);

/// Each job has another command, because the operator reuses the result of admission for equal
/// pods.
async fn submit_jobs(jobs: &TestJobs, program: &str) {
    for number in 0..JOB_COUNT {
        let mut job = jobs.job(&format!("j{number}"), 1, 1);
        job["spec"]["taskGroups"][0]["command"] = serde_json::json!([program, number.to_string()]);
        jobs.create(job).await.unwrap();
    }
}

/// Checks that the gangs of another namespace are placed without delay.
async fn check_other_gangs_placed(fixture: &FaultFixture, prefix: &str) {
    for number in 0..4 {
        let name = format!("{prefix}{number}");
        let began = Instant::now();
        fixture.site.submit(&name, 2, 1).await;
        fixture.site.wait_for_whole_gang(&name, 2).await;
        assert!(began.elapsed() < PLACEMENT_LIMIT, "{:?}", began.elapsed());
        fixture.site.delete::<TrainingJob>(&name).await;
        fixture.site.wait_for_pod_count(&name, 0).await;
    }
}

/// Waits until a job runs that the webhook has delayed.
async fn wait_until_running(jobs: &TestJobs, name: &str) {
    let running = |job: &TrainingJob| phase(job) == Some(JobPhase::Running);
    let api = jobs.api::<TrainingJob>();
    wait_for(&api, name, RETRY_TIMEOUT, running).await.unwrap();
}

/// Checks that the message of the API server contains one of these texts.
async fn check_message(jobs: &TestJobs, words: &[&str]) {
    for number in [0, JOB_COUNT - 1] {
        let name = format!("j{number}");
        let refused = jobs
            .wait_for_status(&name, |s| s.reason == Some(Reason::PodRefused))
            .await;
        let message = message(&refused);
        assert!(message.contains("broken.trellis.dev"), "{message}");
        assert!(words.iter().any(|w| message.contains(w)), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_webhook_of_one_namespace_does_not_delay_other_namespaces() {
    let mut fixture = FaultFixture::new("good", 4).await;
    let bad = TestNamespace::create(&fixture.control_plane, "bad")
        .await
        .unwrap();
    let jobs = fixture.site.jobs_in(&bad);

    let webhook = BrokenWebhook::never_answering(&fixture.control_plane, bad.name()).await;
    submit_jobs(&jobs, "slow").await;
    check_other_gangs_placed(&fixture, "slow").await;
    // Two limits of ten seconds apply, and either may expire first.
    check_message(&jobs, &["deadline exceeded", "handshake timeout"]).await;
    webhook.unwrap().delete().await.unwrap();
    for number in 0..JOB_COUNT {
        let name = format!("j{number}");
        wait_until_running(&jobs, &name).await;
        jobs.delete::<TrainingJob>(&name).await;
    }
    for number in 0..JOB_COUNT {
        jobs.wait_for_pod_count(&format!("j{number}"), 0).await;
    }

    let webhook = BrokenWebhook::refusing_connections(&fixture.control_plane, bad.name()).await;
    submit_jobs(&jobs, "down").await;
    check_message(&jobs, &["connection refused"]).await;
    check_other_gangs_placed(&fixture, "down").await;
    webhook.unwrap().delete().await.unwrap();
    wait_until_running(&jobs, "j0").await;
    let log = fixture.operator.read_log().unwrap();
    assert!(!log.contains("panicked"), "{log}");
    fixture.operator.assert_runs();
}
