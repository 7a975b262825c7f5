//! A kubelet that refuses a pod, on a cluster without another node for the pod.

use std::time::Duration;

use anyhow::ensure;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::site::jobs::phase;
use trellis_e2e::wait::eventually;

use crate::fixtures::FaultFixture;

/// The operator avoids a node for a minute after a refusal. Then it places the gang at once.
const RETRY_TIMEOUT: Duration = Duration::from_secs(90);

/// No other event occurs on this control plane, so the operator must retry by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gang_without_another_node_is_retried() {
    let FaultFixture {
        control_plane,
        operator: _operator,
        proxy: _proxy,
        site,
    } = FaultFixture::new("refused", 2).await;
    let node = &site.nodes().names()[0];
    let refusing = PodPolicy::refuse_by_kubelet(&control_plane, site.name(), node)
        .await
        .unwrap();
    site.submit("j", 2, 8).await;
    let queued = site
        .wait_for_status("j", |s| {
            s.phase == Some(JobPhase::Queued) && s.attempt == Some(2)
        })
        .await;
    let failure = queued.status.unwrap().last_failure.unwrap();
    assert_eq!(failure.reason, "OutOfnvidia.com/gpu");
    refusing.delete().await.unwrap();
    let jobs = site.api::<TrainingJob>();
    eventually(RETRY_TIMEOUT, || async {
        let now = jobs.get("j").await?;
        ensure!(phase(&now) == Some(JobPhase::Running), "{:?}", now.status);
        Ok(())
    })
    .await
    .unwrap();
    let status = jobs.get("j").await.unwrap().status.unwrap();
    assert_eq!((status.attempt, status.disruptions), (Some(2), Some(1)));
}
