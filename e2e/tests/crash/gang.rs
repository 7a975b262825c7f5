//! The operator is killed after the k-th write for a new job.

use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{RECOVERY_TIMEOUT, Succession, kill_after_every_write};
use trellis_e2e::proxy::TrapTiming;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::pod_uids;
use trellis_e2e::wait::{eventually, wait_for};

use super::{KillMoments, counted_write_filter, delete_jobs, is_running, start_succession};

const GANG_SIZE: u32 = 8;

async fn survives_kill(operators: &mut Succession, k: u64, moment: TrapTiming) -> bool {
    let site = TestSite::new(
        &operators.control_plane,
        "crash",
        NodeTemplate::new(1).gpus(8),
    )
    .await;
    let fired = operators.kill_after_write(k, moment, counted_write_filter(site.name()));
    site.submit("j", GANG_SIZE, 1).await;
    let (status, reached) = operators
        .wait_through_kill(&site, "j", (fired, k, moment), is_running)
        .await;
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(1), Some(0), Some(0)),
        "after write {k} ({moment:?})"
    );
    let gang_check = eventually(RECOVERY_TIMEOUT, || {
        site.check_whole_gang("j", GANG_SIZE as usize)
    })
    .await;
    gang_check.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
    delete_jobs(&site, &["j"]).await;
    reached
}

async fn gang_is_placed_after_a_crash_at_each_write(moments: KillMoments) {
    let mut operators = start_succession().await;
    // The writes are 3 children, the journal twice, the pods and a status.
    let minimum = 3 + 2 + u64::from(GANG_SIZE) + 1;
    kill_after_every_write(minimum, async |k| {
        survives_kill(&mut operators, k, moments.at_write(k)).await
    })
    .await;
}

at_both_moments!(gang_is_placed_after_a_crash_at_each_write);

/// All pods exist, but the journal does not record it, and no operator leads until the plan has
/// expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_gang_runs_on_after_its_plan_expires_before_the_commit() {
    let mut operators = start_succession().await;
    let site = TestSite::new(
        &operators.control_plane,
        "late",
        NodeTemplate::new(1).gpus(8),
    )
    .await;
    let mut fired =
        operators.kill_after_write(u64::from(GANG_SIZE), TrapTiming::BeforeAnswer, |request| {
            request.is_write() && request.resource == "pods"
        });
    site.submit("j", GANG_SIZE, 1).await;
    fired.wait_until_fired(RECOVERY_TIMEOUT).await.unwrap();
    let before = pod_uids(&site.list_pods("j").await);
    assert_eq!(before.len(), GANG_SIZE as usize);
    let groups = site.api::<PodGroup>();
    let journal = groups.get("j").await.unwrap().status.unwrap();
    assert_eq!(journal.phase, Some(PodGroupPhase::Committing));
    // Changes the times in the journal, as if two minutes had passed.
    let patch = json!({"status": {"plan": {"deadline": "2020-01-01T00:00:00Z"}}});
    groups
        .patch_status("j", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    operators.start_next_leader(&site).await;
    wait_for(
        &site.api::<TrainingJob>(),
        "j",
        RECOVERY_TIMEOUT,
        is_running,
    )
    .await
    .unwrap();
    assert_eq!(
        pod_uids(&site.wait_for_whole_gang("j", GANG_SIZE as usize).await),
        before
    );
}
