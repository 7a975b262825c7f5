//! A policy evicts a gang, and the operator is killed after its k-th write, for every k. The next
//! leader finishes the eviction. Each pod of the gang is stopped once, and the gang runs again when
//! it is allowed.

use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{ClusterJobPolicy, PodGroup, Reason, TrainingJob};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{
    LATE_WRITE_TIME, RECOVERY_TIMEOUT, Succession, kill_after_every_write,
};
use trellis_e2e::proxy::TrapTiming;
use trellis_e2e::site::TestSite;
use trellis_e2e::wait::{eventually, wait_for};

use super::{KillMoments, counted_write_filter, delete_jobs, is_running, start_succession};

/// Number of pods of the gang.
const GANG_SIZE: u32 = 2;

async fn survives_kill(operators: &mut Succession, k: u64, moment: TrapTiming) -> bool {
    let site = TestSite::new(
        &operators.control_plane,
        "stop",
        NodeTemplate::new(1).gpus(8),
    )
    .await;
    let api = site.api::<TrainingJob>();
    site.create(site.job("j", GANG_SIZE, 4)).await.unwrap();
    wait_for(&api, "j", RECOVERY_TIMEOUT, is_running)
        .await
        .unwrap();
    let mut fired = operators.kill_after_write(k, moment, counted_write_filter(site.name()));
    apply_evicting_policy(operators, &site).await;
    // In the last run, the operator makes fewer than k writes.
    let reached = tokio::select! {
        reached = fired.wait_until_fired(RECOVERY_TIMEOUT) => reached.is_ok(),
        () = wait_until_evicted(&site, k, moment) => fired.wait_until_fired(LATE_WRITE_TIME).await.is_ok(),
    };
    operators.start_next_leader(&site).await;
    wait_until_evicted(&site, k, moment).await;

    let policies: Api<ClusterJobPolicy> = Api::all(operators.control_plane.client());
    let params = DeleteParams::default();
    policies.delete(site.name(), &params).await.unwrap();
    wait_for(&api, "j", RECOVERY_TIMEOUT, is_running)
        .await
        .unwrap();
    site.wait_for_whole_gang("j", GANG_SIZE as usize).await;
    let status = api.get("j").await.unwrap().status.unwrap();
    assert_eq!(status.attempt, Some(2), "{status:#?}");
    delete_jobs(&site, &["j"]).await;
    reached
}

/// Returns a policy that evicts all jobs of the site's namespace.
async fn apply_evicting_policy(operators: &Succession, site: &TestSite) {
    let labels = json!({"kubernetes.io/metadata.name": site.name()});
    let policy = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
        "metadata": {"name": site.name()},
        "spec": {
            "cedar": "forbid(principal, action == Trellis::Action::\"Submit\", resource);",
            "onViolation": "Evict", "namespaceSelector": {"matchLabels": labels},
        },
    });
    let control_plane = &operators.control_plane;
    control_plane.apply_yaml(&policy.to_string()).await.unwrap();
}

/// Waits until the job is refused and has neither pods nor a placement. The eviction has cost
/// exactly one attempt.
async fn wait_until_evicted(site: &TestSite, k: u64, moment: TrapTiming) {
    let stopped = eventually(RECOVERY_TIMEOUT, || async {
        let job = site.api::<TrainingJob>().get("j").await?;
        let status = job.status.unwrap_or_default();
        let phase_and_reason = (status.phase, status.reason);
        let refused = (Some(JobPhase::Refused), Some(Reason::PolicyDenied));
        anyhow::ensure!(phase_and_reason == refused, "{status:#?}");
        let counts = (status.attempt, status.restarts, status.disruptions);
        anyhow::ensure!(counts == (Some(2), Some(0), Some(0)), "{status:#?}");
        anyhow::ensure!(site.list_pods("j").await.is_empty(), "pods");
        let group = site.api::<PodGroup>().get("j").await?;
        let journal = group.status.unwrap_or_default();
        let is_free = journal.phase == Some(PodGroupPhase::Pending) && journal.plan.is_none();
        anyhow::ensure!(is_free, "{journal:#?}");
        Ok(())
    });
    stopped
        .await
        .unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
}

async fn eviction_completes_after_a_crash_at_each_write(moments: KillMoments) {
    let mut operators = start_succession().await;
    // The writes are the end of the attempt, its journal twice, the pods and the refusal.
    let minimum = 1 + 2 + u64::from(GANG_SIZE) + 1;
    kill_after_every_write(minimum, async |k| {
        survives_kill(&mut operators, k, moments.at_write(k)).await
    })
    .await;
}

at_both_moments!(eviction_completes_after_a_crash_at_each_write);
