//! The operator is killed after the k-th write for a failed rank of an elastic job, which is
//! created again.

use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{RECOVERY_TIMEOUT, Succession, kill_after_every_write};
use trellis_e2e::proxy::TrapTiming;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::pod_uids;
use trellis_e2e::wait::wait_for;

use super::{KillMoments, counted_write_filter, delete_jobs, start_succession};

/// Waits until all pods run in this round, and no pod is missing.
fn is_recovered(job: &TrainingJob, round: i64) -> bool {
    let status = job.status.as_ref();
    status.is_some_and(|s| {
        let awaited = s.internal.awaited_pods.as_ref();
        let (status_round, missing) = awaited.map_or((0, 0), |a| (a.round, a.pods.len()));
        s.phase == Some(JobPhase::Running)
            && s.ready.as_deref() == Some("4/4")
            && (status_round, missing) == (round, 0)
    })
}

async fn survives_kill(operators: &mut Succession, k: u64, moment: TrapTiming) -> bool {
    let site = TestSite::new(
        &operators.control_plane,
        "recover",
        NodeTemplate::new(1).gpus(4),
    )
    .await;
    let mut job = site.job("j", 4, 1);
    job["spec"]["taskGroups"][0]["minReplicas"] = json!(2);
    site.create(job).await.unwrap();
    let api = site.api::<TrainingJob>();
    let begun = wait_for(&api, "j", RECOVERY_TIMEOUT, |job: &TrainingJob| {
        is_recovered(job, 0)
    })
    .await;
    begun.unwrap_or_else(|e| panic!("{e:#}"));
    let before = pod_uids(&site.list_pods("j").await);
    let fired = operators.kill_after_write(k, moment, counted_write_filter(site.name()));
    site.end_pod("j-worker-1", "1").await;
    let back = |job: &TrainingJob| is_recovered(job, 1);
    let (status, reached) = operators
        .wait_through_kill(&site, "j", (fired, k, moment), back)
        .await;
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(1), Some(1), Some(0)),
        "after write {k} ({moment:?})"
    );
    let after = pod_uids(&site.list_pods("j").await);
    assert_eq!(before.intersection(&after).count(), 3, "after write {k}");
    assert_eq!(after.len(), 4, "after write {k}");
    delete_jobs(&site, &["j"]).await;
    reached
}

async fn rank_recovers_after_a_crash_at_each_write(moments: KillMoments) {
    let mut operators = start_succession().await;
    // The writes are the status, a delete, a create and a status.
    kill_after_every_write(4, async |k| {
        survives_kill(&mut operators, k, moments.at_write(k)).await
    })
    .await;
}

at_both_moments!(rank_recovers_after_a_crash_at_each_write);
