//! The operator is killed after the k-th write while a job changes from its first stage to the
//! second.

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

/// Returns true if the job runs this stage.
fn runs_stage(job: &TrainingJob, number: i64) -> bool {
    let status = job.status.as_ref();
    status.is_some_and(|s| {
        let at = s.stage.as_ref().map(|stage| stage.number);
        s.phase == Some(JobPhase::Running) && at == Some(number)
    })
}

async fn survives_kill(operators: &mut Succession, k: u64, moment: TrapTiming) -> bool {
    let site = TestSite::new(
        &operators.control_plane,
        "stages",
        NodeTemplate::new(1).gpus(4),
    )
    .await;
    let mut job = site.job("j", 2, 1);
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let mut next = groups[0].clone();
    next["name"] = json!("next");
    next["dependsOn"] = json!([{"group": "worker", "status": "Complete"}]);
    groups.push(next);
    site.create(job).await.unwrap();
    let api = site.api::<TrainingJob>();
    let begun = wait_for(&api, "j", RECOVERY_TIMEOUT, |job: &TrainingJob| {
        runs_stage(job, 1)
    })
    .await;
    begun.unwrap_or_else(|e| panic!("{e:#}"));
    let first = pod_uids(&site.list_pods("j").await);
    let fired = operators.kill_after_write(k, moment, counted_write_filter(site.name()));
    for pod in ["j-worker-0", "j-worker-1"] {
        site.end_pod(pod, "0").await;
    }
    let is_running = |job: &TrainingJob| runs_stage(job, 2);
    let (status, reached) = operators
        .wait_through_kill(&site, "j", (fired, k, moment), is_running)
        .await;
    // The second stage is one more attempt and no restart, and no finished pod has run again.
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(2), Some(0), Some(0)),
        "after write {k} ({moment:?})"
    );
    let pods = pod_uids(&site.list_pods("j").await);
    assert_eq!(pods.len(), 4, "after write {k} ({moment:?})");
    assert!(pods.is_superset(&first), "after write {k} ({moment:?})");
    delete_jobs(&site, &["j"]).await;
    reached
}

async fn next_stage_starts_after_a_crash_at_each_write(moments: KillMoments) {
    let mut operators = start_succession().await;
    // The writes are the status, the journal that is rolled back and cleared, the PodGroup of the
    // next stage, its journal, two pods, the end of its journal, and the status.
    kill_after_every_write(8, async |k| {
        survives_kill(&mut operators, k, moments.at_write(k)).await
    })
    .await;
}

at_both_moments!(next_stage_starts_after_a_crash_at_each_write);
