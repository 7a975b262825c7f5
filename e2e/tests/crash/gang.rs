//! After the k-th write for a job that is new.

use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::uids;
use trellis_e2e::proxy::Moment;
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_for};

use super::succession::Succession;
use super::{RECOVERY, counts, every_k, leave, running, sees_through};

const GANG: u32 = 8;

async fn survives(operators: &mut Succession, k: u64, moment: Moment) -> bool {
    let site = Site::new(&operators.control_plane, "crash", Nodes::new(1).gpus(8)).await;
    let fired = operators.kill_after(k, moment, counts(site.name()));
    site.submit("j", GANG, 1).await;
    let (status, reached) = sees_through(operators, &site, (fired, k, moment), running).await;
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(1), Some(0), Some(0)),
        "after write {k} ({moment:?})"
    );
    let whole = eventually(RECOVERY, || site.try_whole("j", GANG as usize)).await;
    whole.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
    leave(&site, &["j"]).await;
    reached
}

async fn killed_after_each_write(moment: Moment) {
    let mut operators = Succession::begin().await;
    // 3 children, the journal twice, the pods, a status.
    let least = 3 + 2 + u64::from(GANG) + 1;
    every_k(least, async |k| survives(&mut operators, k, moment).await).await;
}

at_both_moments!(killed_after_each_write);

/// All pods exist, the journal does not say so, and no operator leads until the plan has expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_gang_whose_journal_is_closed_too_late_runs_on() {
    let mut operators = Succession::begin().await;
    let site = Site::new(&operators.control_plane, "late", Nodes::new(1).gpus(8)).await;
    let mut fired = operators.kill_after(u64::from(GANG), Moment::BeforeAnswer, |request| {
        request.is_write() && request.resource == "pods"
    });
    site.submit("j", GANG, 1).await;
    fired.wait(RECOVERY).await.unwrap();
    let before = uids(&site.pods("j").await);
    assert_eq!(before.len(), GANG as usize);
    let groups = site.api::<PodGroup>();
    let journal = groups.get("j").await.unwrap().status.unwrap();
    assert_eq!(journal.phase, Some(PodGroupPhase::Committing));
    // As it would be two minutes later.
    let patch = json!({"status": {"plan": {"deadline": "2020-01-01T00:00:00Z"}}});
    groups
        .patch_status("j", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    operators.next(&site).await;
    wait_for(&site.api::<TrainingJob>(), "j", RECOVERY, running)
        .await
        .unwrap();
    assert_eq!(uids(&site.whole("j", GANG as usize).await), before);
}
