//! Availability of the webhook under floods and garbage, and of the API server without it.

use std::time::{Duration, Instant};

use futures::stream;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::operator_webhook::{
    self, FailurePolicy, WebhookClient, admission_review, sized_body, streamed_body,
};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ProcessSignal, free_port};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::message;
use trellis_e2e::wait::eventually;

use crate::fixtures::{
    FORBID_NO_IMAGE, apply_policy, cluster_policy_for, create_job, wait_until_active,
};
use crate::operator_program;
use crate::webhook::{
    RESPONSE_LIMIT, WebhookFixture, operator_kubeconfig, reason_and_message, start_fixture,
};

/// Longest time until responses are in time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time of one of many concurrent requests.
const MAX_TURN_WAIT: Duration = Duration::from_secs(30);

/// Waits until a dry run of the job "j", for which the API server calls the webhook, takes less
/// than `limit`.
async fn wait_until_tried(site: &TestSite, job: &Value, limit: Duration) {
    let dry = PatchParams::apply("test").dry_run().force();
    let patch = Patch::Apply(job);
    let api: Api<TrainingJob> = site.api();
    eventually(PATIENCE, || async {
        tokio::time::timeout(limit, api.patch("j", &dry, &patch)).await??;
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_and_garbage_do_not_delay_other_clients() {
    let WebhookFixture {
        control_plane,
        port,
        _operator,
    } = start_fixture().await;
    let site = TestSite::new(&control_plane, "flood", NodeTemplate::new(0)).await;
    let caller = WebhookClient::new(&control_plane, port).await.unwrap();
    let large = vec![b' '; (3 << 20) + 1];
    let parts: Vec<_> = large.chunks(1 << 16).map(<[u8]>::to_vec).collect();
    let cases: [(operator_webhook::RequestBody, u16); 5] = [
        (sized_body(large.clone()), 413),
        (streamed_body(stream::iter(parts)), 413),
        (sized_body(vec![0xff; 4096]), 400),
        (sized_body(b"[".repeat(1 << 20)), 400),
        (sized_body("{\"kind\": \"Status\"}"), 400),
    ];
    for (body, expected) in cases {
        // A client that is refused while it sends may only notice the closed connection.
        match caller.send_review(body).await {
            Ok((code, said)) => {
                assert_eq!(code, expected, "{said}");
                assert_eq!(said["kind"], "Status", "{said}");
            }
            Err(error) => assert_eq!(expected, 413, "{error:#}"),
        }
    }

    // Connections without data, and endless bodies.
    let address = format!("127.0.0.1:{port}");
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }
    let slow = (0..30).map(|_| {
        let caller = caller.clone();
        tokio::spawn(async move {
            caller
                .send_review(streamed_body(stream::pending()))
                .await
                .map(|a| a.0)
        })
    });
    let slow: Vec<_> = slow.collect();
    let job = site.job("j", 1, 8);
    wait_until_tried(&site, &job, RESPONSE_LIMIT).await;
    for slow in slow {
        assert_eq!(slow.await.unwrap().unwrap(), 408);
    }
    drop(silent);

    // Each of two hundred concurrent requests gets an answer with its own uid.
    let all = (0..200).map(|n| {
        let (caller, uid) = (caller.clone(), format!("uid-{n}"));
        let review = admission_review(&uid, "ada", site.name(), &job);
        tokio::spawn(async move {
            let began = Instant::now();
            let (code, answer) = caller.send_review(sized_body(review.to_string())).await?;
            anyhow::Ok((code, answer, uid, began.elapsed()))
        })
    });
    for task in all.collect::<Vec<_>>() {
        let (code, answer, uid, duration) = task.await.unwrap().unwrap();
        assert_eq!(code, 200, "{answer}");
        assert_eq!(answer["response"]["uid"], uid);
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
        assert!(duration < MAX_TURN_WAIT, "{duration:?}");
    }

    // Metrics count all of these requests.
    let token = control_plane.admin_token();
    let (code, metrics) = caller.read_metrics(token).await.unwrap();
    assert_eq!(code, 200, "{metrics}");
    let check_line = |line: &str| assert!(metrics.contains(line), "{line}: {metrics}");
    check_line("trellis_webhook_requests_total{kind=\"TrainingJob\",decision=\"Allowed\"}");
    check_line("trellis_webhook_unanswered_total{code=\"400\"}");
    check_line("trellis_webhook_unanswered_total{code=\"408\"} 30");
    check_line("trellis_webhook_duration_seconds_bucket");
    check_line("trellis_webhook_certificate_degraded 0");
    assert_eq!(caller.read_metrics("none").await.unwrap().0, 401);
}

/// An outage of the webhook blocks no client, and no denied job runs. No request fails while the
/// operator shuts down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_stored_and_denied_during_a_webhook_outage() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let port = free_port().unwrap();
    operator_webhook::install(&control_plane, port, FailurePolicy::Ignore)
        .await
        .unwrap();
    let kubeconfig = operator_kubeconfig(&control_plane).await;
    let launch = operator_webhook::launch_options("operator", port);
    let mut operator =
        Operator::launch_with_options(&control_plane, operator_program(), &kubeconfig, &launch)
            .unwrap();
    operator_webhook::wait_until_called(&control_plane)
        .await
        .unwrap();
    let site = TestSite::new(&control_plane, "outage", NodeTemplate::new(1).gpus(8)).await;
    apply_policy(
        &control_plane,
        &cluster_policy_for(&site, FORBID_NO_IMAGE, json!({})),
    )
    .await;
    wait_until_active(&control_plane, site.name()).await;
    let refused = site.create(site.job("j", 1, 8)).await.unwrap_err();
    let (_, refusal) = reason_and_message(refused);

    // The operator reports that it is not ready, answers for some more seconds, and ends.
    let caller = WebhookClient::new(&control_plane, port).await.unwrap();
    assert_eq!(caller.readiness_status().await.unwrap(), 200);
    let job = site.job("j", 1, 8);
    let review = admission_review("uid", "ada", site.name(), &job).to_string();
    // Requests start before the signal, so the last answers come within a few seconds.
    let asks = tokio::spawn(async move {
        let mut last = Vec::new();
        while let Ok(code) = caller.readiness_status().await {
            let Ok((_, answer)) = caller.send_review(sized_body(review.clone())).await else {
                break;
            };
            if code == 503 {
                last.push(answer);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        last
    });
    let stopping = tokio::task::spawn_blocking(move || {
        operator.signal(ProcessSignal::Terminate).unwrap();
        operator
    });
    let mut operator = stopping.await.unwrap();
    assert!(operator.try_wait().unwrap().unwrap().success());
    let last = asks.await.unwrap();
    assert!(
        !last.is_empty(),
        "the operator answered no request during its shutdown"
    );
    for answer in last {
        assert_eq!(answer["response"]["allowed"], false, "{answer}");
    }

    // Without an operator the API server accepts jobs, and they do not run.
    wait_until_tried(&site, &job, RESPONSE_LIMIT * 2).await;
    create_job(&site, job).await;
    let _operator =
        Operator::launch_with_options(&control_plane, operator_program(), &kubeconfig, &launch)
            .unwrap();
    let denied = site.wait_for_phase("j", JobPhase::Refused).await;
    assert!(refusal.ends_with(&message(&denied)), "{refusal}");
    assert_eq!(site.list_pods("j").await.len(), 0);
}
