//! A job that resumes slowly after a suspension.

use anyhow::ensure;
use serde_json::{Value, json};
use trellis_api::PodGroup;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;
use trellis_e2e::proxy::ProxyFault;
use trellis_e2e::site::jobs::{SOON, phase};
use trellis_e2e::wait::eventually;

use super::{fixtures::FaultFixture, paused_commit};

/// The spec is immutable again as soon as the operator acts on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumed_job_reports_it_before_its_first_pod() {
    let FaultFixture {
        control_plane: _control_plane,
        mut operator,
        proxy,
        site,
    } = FaultFixture::new("resume", 1).await;
    site.submit("j", 2, 4).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let suspend = |suspend: bool| site.patch("j", json!({"spec": {"suspend": suspend}}));
    suspend(true).await.unwrap();
    site.wait_for_phase("j", JobPhase::Suspended).await;
    proxy.on_request(|request| {
        if paused_commit::is_pod_create(request, "j", 0) {
            ProxyFault::Hold
        } else {
            ProxyFault::Pass
        }
    });
    suspend(false).await.unwrap();
    eventually(SOON, || async {
        let journal = site.api::<PodGroup>().get("j").await?.status;
        let journal = journal.unwrap_or_default();
        ensure!(journal.phase == Some(PodGroupPhase::Committing));
        let plan = journal.plan.unwrap_or_default();
        ensure!(plan.attempt == 2, "attempt {}", plan.attempt);
        Ok(())
    })
    .await
    .unwrap();
    let mut groups: Value = site.job("j", 2, 4)["spec"]["taskGroups"].clone();
    groups[0]["image"] = json!("registry.example/train:2.0");
    let changed = site
        .patch("j", json!({"spec": {"taskGroups": groups}}))
        .await;
    let refused = changed.expect_err("the image has changed").to_string();
    assert!(refused.contains("while the job is suspended"), "{refused}");
    let now = site.api().get("j").await.unwrap();
    assert_eq!(phase(&now), Some(JobPhase::Queued));
    assert_eq!(now.status.unwrap().attempt, Some(2));
    proxy.remove_faults();
    let running = site.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(running.status.unwrap().attempt, Some(2));
    operator.assert_runs();
}
