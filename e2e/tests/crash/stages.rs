//! The operator is killed after the k-th write for a job whose first stage ends and whose next one
//! begins.

use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::uids;
use trellis_e2e::proxy::Moment;
use trellis_e2e::site::Site;
use trellis_e2e::wait::wait_for;

use super::succession::Succession;
use super::{RECOVERY, counts, every_k, leave, sees_through};

/// True if the job runs that stage.
fn is_at(job: &TrainingJob, number: i64) -> bool {
    let status = job.status.as_ref();
    status.is_some_and(|s| {
        let at = s.stage.as_ref().map(|stage| stage.number);
        s.phase == Some(JobPhase::Running) && at == Some(number)
    })
}

async fn survives(operators: &mut Succession, k: u64, moment: Moment) -> bool {
    let site = Site::new(&operators.control_plane, "stages", Nodes::new(1).gpus(4)).await;
    let mut job = site.job("j", 2, 1);
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let mut next = groups[0].clone();
    next["name"] = json!("next");
    next["dependsOn"] = json!([{"group": "worker", "status": "Complete"}]);
    groups.push(next);
    site.create(job).await.unwrap();
    let api = site.api::<TrainingJob>();
    let begun = wait_for(&api, "j", RECOVERY, |job: &TrainingJob| is_at(job, 1)).await;
    begun.unwrap_or_else(|e| panic!("{e:#}"));
    let first = uids(&site.pods("j").await);
    let fired = operators.kill_after(k, moment, counts(site.name()));
    for pod in ["j-worker-0", "j-worker-1"] {
        site.exit(pod, "0").await;
    }
    let runs = |job: &TrainingJob| is_at(job, 2);
    let (status, reached) = sees_through(operators, &site, (fired, k, moment), runs).await;
    // The second stage is one more attempt without a restart, and no finished pod has run again.
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(2), Some(0), Some(0)),
        "after write {k} ({moment:?})"
    );
    let pods = uids(&site.pods("j").await);
    assert_eq!(pods.len(), 4, "after write {k} ({moment:?})");
    assert!(pods.is_superset(&first), "after write {k} ({moment:?})");
    leave(&site, &["j"]).await;
    reached
}

async fn the_next_stage_survives_each_write(moment: Moment) {
    let mut operators = Succession::begin().await;
    // The status; the journal that is undone and cleared; the PodGroup of the next stage; its
    // journal, two pods and its end; the status.
    every_k(8, async |k| survives(&mut operators, k, moment).await).await;
}

at_both_moments!(the_next_stage_survives_each_write);
