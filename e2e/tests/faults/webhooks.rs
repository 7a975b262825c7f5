//! The webhook of one namespace is down or slow. The jobs in it say so, and other jobs do not wait.

use std::time::{Duration, Instant};

use trellis_api::job::JobPhase;
use trellis_api::{Reason, TrainingJob};
use trellis_e2e::jobs::{Jobs, message, phase};
use trellis_e2e::namespace::TestNamespace;
use trellis_e2e::wait::wait_for;
use trellis_e2e::webhook::BrokenWebhook;

use super::scene::Scene;

/// Number of jobs whose pods the API server sends to the webhook.
const MANY: usize = 20;
/// Far less than all that hangs takes one after the other, and far more than a gang takes on a
/// busy machine.
const NORMAL: Duration = Duration::from_secs(30);
/// How long a gang may take that the webhook held up: each refusal makes the pause longer.
const TRIED_AGAIN: Duration = Duration::from_secs(120);

/// Each with a command of its own: what admission says of one is no word on the next.
async fn submit_many(jobs: &Jobs, program: &str) {
    for number in 0..MANY {
        let mut job = jobs.job(&format!("j{number}"), 1, 1);
        job["spec"]["taskGroups"][0]["command"] = serde_json::json!([program, number.to_string()]);
        jobs.create(job).await.unwrap();
    }
}

/// The gangs of another namespace are placed as if nothing were.
async fn others_are_placed(seen: &Scene, prefix: &str) {
    for number in 0..4 {
        let name = format!("{prefix}{number}");
        let began = Instant::now();
        seen.site.submit(&name, 2, 1).await;
        seen.site.whole(&name, 2).await;
        assert!(began.elapsed() < NORMAL, "{:?}", began.elapsed());
        seen.site.delete::<TrainingJob>(&name).await;
        seen.site.pods_become(&name, 0).await;
    }
}

/// Waits until a job runs that the webhook held up.
async fn runs(jobs: &Jobs, name: &str) {
    let running = |job: &TrainingJob| phase(job) == Some(JobPhase::Running);
    let api = jobs.api::<TrainingJob>();
    wait_for(&api, name, TRIED_AGAIN, running).await.unwrap();
}

/// Checks that the message of the API server has one of these words.
async fn says(jobs: &Jobs, words: &[&str]) {
    for number in [0, MANY - 1] {
        let name = format!("j{number}");
        let refused = jobs
            .becomes(&name, |s| s.reason == Some(Reason::PodRefused))
            .await;
        let message = message(&refused);
        assert!(message.contains("broken.trellis.dev"), "{message}");
        assert!(words.iter().any(|w| message.contains(w)), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_of_one_namespace_that_is_down_or_hangs_holds_up_nobody_else() {
    let mut seen = Scene::new("good", 4).await;
    let bad = TestNamespace::create(&seen.control_plane, "bad")
        .await
        .unwrap();
    let jobs = seen.site.jobs_of(&bad);

    let webhook = BrokenWebhook::hanging(&seen.control_plane, bad.name()).await;
    submit_many(&jobs, "slow").await;
    others_are_placed(&seen, "slow").await;
    // Two limits of ten seconds apply, and either may expire first.
    says(&jobs, &["deadline exceeded", "handshake timeout"]).await;
    webhook.unwrap().lift().await.unwrap();
    for number in 0..MANY {
        let name = format!("j{number}");
        runs(&jobs, &name).await;
        jobs.delete::<TrainingJob>(&name).await;
    }
    for number in 0..MANY {
        jobs.pods_become(&format!("j{number}"), 0).await;
    }

    let webhook = BrokenWebhook::down(&seen.control_plane, bad.name()).await;
    submit_many(&jobs, "down").await;
    says(&jobs, &["connection refused"]).await;
    others_are_placed(&seen, "down").await;
    webhook.unwrap().lift().await.unwrap();
    runs(&jobs, "j0").await;
    let log = seen.operator.log().unwrap();
    assert!(!log.contains("panicked"), "{log}");
    seen.operator.assert_runs();
}
