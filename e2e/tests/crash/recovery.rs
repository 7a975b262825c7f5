//! After the k-th write for a rank of an elastic job that fails and comes back.

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

/// All of it runs, in round so and so, and nothing more is awaited.
fn is_back(job: &TrainingJob, round: i64) -> bool {
    let status = job.status.as_ref();
    status.is_some_and(|s| {
        let awaited = s.internal.awaited_pods.as_ref();
        let (told, left) = awaited.map_or((0, 0), |a| (a.round, a.pods.len()));
        s.phase == Some(JobPhase::Running)
            && s.ready.as_deref() == Some("4/4")
            && (told, left) == (round, 0)
    })
}

async fn survives(operators: &mut Succession, k: u64, moment: Moment) -> bool {
    let site = Site::new(&operators.control_plane, "recover", Nodes::new(1).gpus(4)).await;
    let mut job = site.job("j", 4, 1);
    job["spec"]["taskGroups"][0]["minReplicas"] = json!(2);
    site.create(job).await.unwrap();
    let api = site.api::<TrainingJob>();
    let begun = wait_for(&api, "j", RECOVERY, |job: &TrainingJob| is_back(job, 0)).await;
    begun.unwrap_or_else(|e| panic!("{e:#}"));
    let before = uids(&site.pods("j").await);
    let fired = operators.kill_after(k, moment, counts(site.name()));
    site.exit("j-worker-1", "1").await;
    let back = |job: &TrainingJob| is_back(job, 1);
    let (status, reached) = sees_through(operators, &site, (fired, k, moment), back).await;
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(1), Some(1), Some(0)),
        "after write {k} ({moment:?})"
    );
    let after = uids(&site.pods("j").await);
    assert_eq!(before.intersection(&after).count(), 3, "after write {k}");
    assert_eq!(after.len(), 4, "after write {k}");
    leave(&site, &["j"]).await;
    reached
}

async fn a_recovery_survives_each_write(moment: Moment) {
    let mut operators = Succession::begin().await;
    // The status, a delete, a create, and a status.
    every_k(4, async |k| survives(&mut operators, k, moment).await).await;
}

at_both_moments!(a_recovery_survives_each_write);
