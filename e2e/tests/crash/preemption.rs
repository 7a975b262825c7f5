//! A preemptor is created, and the operator is killed after its k-th write, for every k. The next
//! leader continues. Each preemption is counted once, and no gang is preempted without need.

use serde_json::{Value, json};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, Reason, TrainingJob};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{
    LATE_WRITE_TIME, RECOVERY_TIMEOUT, Succession, kill_after_every_write,
};
use trellis_e2e::proxy::{Request, TrapTiming};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::pod_uids;
use trellis_e2e::wait::{eventually, wait_for};

use super::{KillMoments, counted_write_filter, delete_jobs, is_running, start_succession};

/// Number of pods of each gang.
const GANG_SIZE: u32 = 2;

const PRIORITY_OBJECTS: &str = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: trellis.dev/v1alpha1
kind: TrainingQueue
metadata: {name: by-priority}
spec: {namespaceSelector: {}, preemption: {withinClusterQueue: LowerPriority}}
";

/// Returns a job whose pods have half of the node's GPUs each.
fn gang_job(site: &TestSite, name: &str, class: Option<&str>) -> Value {
    let mut job = site.job(name, GANG_SIZE, 4);
    job["spec"]["queueName"] = json!("by-priority");
    if let Some(class) = class {
        job["spec"]["priorityClassName"] = json!(class);
    }
    job
}

pub(crate) async fn start_operators() -> Succession {
    let operators = start_succession().await;
    operators
        .control_plane
        .apply_yaml(PRIORITY_OBJECTS)
        .await
        .unwrap();
    operators
}

async fn survives_kill(operators: &mut Succession, k: u64, moment: TrapTiming) -> bool {
    let site = TestSite::new(
        &operators.control_plane,
        "evict",
        NodeTemplate::new(1).gpus(8),
    )
    .await;
    let api = site.api::<TrainingJob>();
    site.create(gang_job(&site, "low", None)).await.unwrap();
    wait_for(&api, "low", RECOVERY_TIMEOUT, is_running)
        .await
        .unwrap();
    let mut fired = operators.kill_after_write(k, moment, counted_write_filter(site.name()));
    site.create(gang_job(&site, "high", Some("high")))
        .await
        .unwrap();
    // In the last run, the operator makes fewer than k writes.
    let reached = tokio::select! {
        reached = fired.wait_until_fired(RECOVERY_TIMEOUT) => reached.is_ok(),
        () = wait_until_settled(&site, k, moment) => fired.wait_until_fired(LATE_WRITE_TIME).await.is_ok(),
    };
    operators.start_next_leader(&site).await;
    wait_until_settled(&site, k, moment).await;
    delete_jobs(&site, &["low", "high"]).await;
    reached
}

/// Checks that one gang runs completely in its first attempt, and that the other was preempted once
/// and has no pods.
async fn wait_until_settled(site: &TestSite, k: u64, moment: TrapTiming) {
    let settled = eventually(RECOVERY_TIMEOUT, || async {
        site.check_whole_gang("high", GANG_SIZE as usize).await?;
        for (name, expected) in [
            ("high", (Some(1), Some(0), Some(0))),
            ("low", (Some(2), Some(0), Some(1))),
        ] {
            let job = site.api::<TrainingJob>().get(name).await?;
            anyhow::ensure!(name == "low" || is_running(&job), "{:#?}", job.status);
            let status = job.status.unwrap_or_default();
            let counts = (status.attempt, status.restarts, status.disruptions);
            anyhow::ensure!(counts == expected, "{name}: {status:#?}");
        }
        anyhow::ensure!(site.list_pods("low").await.is_empty(), "pods of low");
        Ok(())
    });
    settled
        .await
        .unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
}

/// The operator is killed between the nomination and the first eviction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim_stays_if_its_preemptor_is_deleted_before_the_next_leader() {
    let mut operators = start_operators().await;
    let site = TestSite::new(
        &operators.control_plane,
        "untold",
        NodeTemplate::new(1).gpus(8),
    )
    .await;
    let api = site.api::<TrainingJob>();
    site.create(gang_job(&site, "low", None)).await.unwrap();
    wait_for(&api, "low", RECOVERY_TIMEOUT, is_running)
        .await
        .unwrap();
    let before = pod_uids(&site.wait_for_whole_gang("low", GANG_SIZE as usize).await);
    let nominates =
        |request: &Request| request.is_write() && request.path.contains("/podgroups/high/status");
    let mut fired = operators.kill_after_write(1, TrapTiming::BeforeAnswer, nominates);
    site.create(gang_job(&site, "high", Some("high")))
        .await
        .unwrap();
    fired.wait_until_fired(RECOVERY_TIMEOUT).await.unwrap();
    let journal = site.api::<PodGroup>().get("high").await.unwrap();
    let journal = journal.status.unwrap();
    assert_eq!(journal.phase, Some(PodGroupPhase::Nominated));
    let victims: Vec<_> = journal.victims.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(victims, ["low"]);
    site.delete::<TrainingJob>("high").await;
    operators.start_next_leader(&site).await;
    // The new leader decides about later jobs.
    site.create(gang_job(&site, "later", None)).await.unwrap();
    let is_waiting = |job: &TrainingJob| {
        let reason = job.status.as_ref().and_then(|s| s.reason);
        reason == Some(Reason::InsufficientCapacity)
    };
    wait_for(&api, "later", RECOVERY_TIMEOUT, is_waiting)
        .await
        .unwrap();
    assert_eq!(
        pod_uids(&site.wait_for_whole_gang("low", GANG_SIZE as usize).await),
        before
    );
    let low = api.get("low").await.unwrap().status.unwrap();
    assert_eq!((low.attempt, low.disruptions), (Some(1), Some(0)));
}

async fn preemption_completes_after_a_crash_at_each_write(moments: KillMoments) {
    let mut operators = start_operators().await;
    // The writes are 3 children, two journals three times each, evictions, pods and two statuses.
    let minimum = 3 + 6 + 2 * u64::from(GANG_SIZE) + 2;
    kill_after_every_write(minimum, async |k| {
        survives_kill(&mut operators, k, moments.at_write(k)).await
    })
    .await;
}

at_both_moments!(preemption_completes_after_a_crash_at_each_write);
