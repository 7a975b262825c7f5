//! The webhook's certificate: its creation, its use by all replicas, its renewal during requests,
//! and its repair.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::operator_webhook::{
    self, FailurePolicy, WEBHOOK_NAME, WebhookClient, admission_review, sized_body,
};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::free_port;
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::wait::eventually;

use crate::operator_program;
use crate::webhook::operator_kubeconfig;

/// Validity of a certificate in these tests, in seconds.
const LIFETIME_SECONDS: u32 = 30;
/// Number of different certificates that the test waits for.
const RENEWAL_COUNT: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_is_renewed_under_load_without_failed_requests() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let (port, other) = (free_port().unwrap(), free_port().unwrap());
    operator_webhook::install(&control_plane, port, FailurePolicy::Fail)
        .await
        .unwrap();
    let kubeconfig = operator_kubeconfig(&control_plane).await;
    let start = |name: &str, port| {
        let lifetime = format!("--webhook-certificate-seconds={LIFETIME_SECONDS}");
        let launch = operator_webhook::launch_options(name, port)
            .lease_seconds(60)
            .argument(&lifetime);
        Operator::launch_with_options(&control_plane, operator_program(), &kubeconfig, &launch)
            .unwrap()
    };
    let mut leader = start("leads", port);
    operator_webhook::wait_until_called(&control_plane)
        .await
        .unwrap();
    // A replica that does not lead also answers, with the same certificate.
    let mut standby = start("waits", other);
    let site = TestSite::new(&control_plane, "renewed", NodeTemplate::new(0)).await;
    let secrets: Api<Secret> = Api::namespaced(control_plane.client(), operator::NAMESPACE);
    let served = async || {
        let secret = secrets.get(WEBHOOK_NAME).await.unwrap();
        secret.data.unwrap_or_default().get("tls.crt").cloned()
    };

    let (stop, count) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let load = (0..4).map(|n| {
        let (stop, count) = (stop.clone(), count.clone());
        let api: Api<TrainingJob> = site.api();
        let job = serde_json::from_value(site.job(&format!("j-{n}"), 1, 8)).unwrap();
        tokio::spawn(async move {
            let dry_run = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            while !stop.load(Ordering::Relaxed) {
                api.create(&dry_run, &job).await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
    });
    let load: Vec<_> = load.collect();
    let mut certificates = BTreeSet::new();
    let review = admission_review("uid", "ada", site.name(), &site.job("j", 1, 8)).to_string();
    eventually(Duration::from_secs(20), || async {
        for port in [port, other] {
            let caller = WebhookClient::new(&control_plane, port).await?;
            anyhow::ensure!(
                caller.readiness_status().await? == 200,
                "the operator is not ready"
            );
        }
        Ok(())
    })
    .await
    .unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(LIFETIME_SECONDS.into()) * 4;
    while certificates.len() < RENEWAL_COUNT {
        assert!(
            tokio::time::Instant::now() < deadline,
            "{} were seen",
            certificates.len()
        );
        // New clients trust the CA bundle in the webhook configuration.
        for port in [port, other] {
            let caller = WebhookClient::new(&control_plane, port).await.unwrap();
            let answer = caller.send_review(sized_body(review.clone())).await;
            let (code, answer) = answer.unwrap();
            assert_eq!(code, 200, "{answer}");
            assert_eq!(answer["response"]["allowed"], true, "{answer}");
        }
        certificates.extend(served().await.map(|bytes| bytes.0));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    stop.store(true, Ordering::Relaxed);
    for task in load {
        task.await.unwrap();
    }
    assert!(count.load(Ordering::Relaxed) > 500, "{count:?}");
    leader.assert_runs();
    standby.assert_runs();
}

#[tokio::test]
async fn damaged_certificate_and_configuration_are_repaired() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let port = free_port().unwrap();
    let kubeconfig = operator_kubeconfig(&control_plane).await;
    let launch =
        operator_webhook::launch_options("operator", port).argument("--health=127.0.0.1:0");
    let mut operator =
        Operator::launch_with_options(&control_plane, operator_program(), &kubeconfig, &launch)
            .unwrap();
    // The webhook is not installed yet. The operator logs that, and works without it.
    eventually(Duration::from_secs(20), || async {
        let log = operator.read_log()?;
        anyhow::ensure!(log.contains("webhook.yaml of the chart"), "{log}");
        Ok(())
    })
    .await
    .unwrap();
    // The operator is not ready, so that no Service sends it requests that it could not answer. It
    // still leads, because otherwise no operator would create the certificate.
    let site = TestSite::new(&control_plane, "unready", NodeTemplate::new(1).gpus(8)).await;
    site.submit("j", 1, 8).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let (is_ready, text) = operator.read_readiness().await.unwrap();
    assert!(
        !is_ready && text.contains("[-]webhook-certificate failed: there is none yet"),
        "{text}"
    );
    assert_eq!(text.matches("[-]").count(), 1, "{text}");
    operator_webhook::install(&control_plane, port, FailurePolicy::Fail)
        .await
        .unwrap();
    operator_webhook::wait_until_called(&control_plane)
        .await
        .unwrap();
    let (is_ready, text) = operator.read_readiness().await.unwrap();
    assert!(
        is_ready && text.contains("[+]webhook-certificate ok"),
        "{text}"
    );
    operator.assert_runs();

    // A user empties the Secret and removes the CA bundles.
    let client = control_plane.client();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), operator::NAMESPACE);
    let none = json!({"data": null});
    let params = PatchParams::default();
    secrets
        .patch(WEBHOOK_NAME, &params, &Patch::Merge(&none))
        .await
        .unwrap();
    let hooks = ["trainingjobs", "policies"].map(
        |name| json!({"name": format!("{name}.trellis.dev"), "clientConfig": {"caBundle": null}}),
    );
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client);
    configurations
        .patch(
            WEBHOOK_NAME,
            &params,
            &Patch::Strategic(json!({"webhooks": hooks})),
        )
        .await
        .unwrap();
    eventually(Duration::from_secs(60), || async {
        let caller = WebhookClient::new(&control_plane, port).await?;
        anyhow::ensure!(caller.readiness_status().await? == 200);
        let secret = secrets.get(WEBHOOK_NAME).await?;
        anyhow::ensure!(secret.data.is_some_and(|data| data.len() == 3));
        Ok(())
    })
    .await
    .unwrap();
    operator_webhook::wait_until_called(&control_plane)
        .await
        .unwrap();

    // The Secret gets a key that does not match the certificate, and then loses its authority.
    let data = async || secrets.get(WEBHOOK_NAME).await.unwrap().data.unwrap();
    for spoilt in [json!({"tls.key": "bm8="}), json!({"ca.crt": null})] {
        let before = data().await;
        let patch = Patch::Merge(json!({"data": spoilt}));
        secrets.patch(WEBHOOK_NAME, &params, &patch).await.unwrap();
        eventually(Duration::from_secs(60), || async {
            let now = data().await;
            anyhow::ensure!(now.len() == 3 && now["tls.crt"] != before["tls.crt"]);
            let caller = WebhookClient::new(&control_plane, port).await?;
            anyhow::ensure!(caller.readiness_status().await? == 200);
            Ok(())
        })
        .await
        .unwrap();
        operator_webhook::wait_until_called(&control_plane)
            .await
            .unwrap();
        let log = operator.read_log().unwrap();
        let created = log.matches("a certificate is made for the webhook").count();
        assert!(created >= 2, "{log}");
    }
}
