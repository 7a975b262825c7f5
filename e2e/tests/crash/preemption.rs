//! The operator is killed after the k-th write that follows the creation of a preemptor, for every
//! k, and the next leader goes on. Each preemption is counted once, and no gang is preempted in
//! vain.

use serde_json::{Value, json};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, Reason, TrainingJob};
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::uids;
use trellis_e2e::proxy::{Moment, Request};
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_for};

use super::succession::Succession;
use super::{LATE, RECOVERY, counts, every_k, leave, running};

/// Pods of each gang.
const GANG: u32 = 2;

const KINDS: &str = "
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

/// A job of half the node's GPUs a pod.
fn job(site: &Site, name: &str, class: Option<&str>) -> Value {
    let mut job = site.job(name, GANG, 4);
    job["spec"]["queueName"] = json!("by-priority");
    if let Some(class) = class {
        job["spec"]["priorityClassName"] = json!(class);
    }
    job
}

pub(crate) async fn begin() -> Succession {
    let operators = Succession::begin().await;
    operators.control_plane.apply_yaml(KINDS).await.unwrap();
    operators
}

async fn survives(operators: &mut Succession, k: u64, moment: Moment) -> bool {
    let site = Site::new(&operators.control_plane, "evict", Nodes::new(1).gpus(8)).await;
    let api = site.api::<TrainingJob>();
    site.create(job(&site, "low", None)).await.unwrap();
    wait_for(&api, "low", RECOVERY, running).await.unwrap();
    let mut fired = operators.kill_after(k, moment, counts(site.name()));
    site.create(job(&site, "high", Some("high"))).await.unwrap();
    // The last k is never reached.
    let reached = tokio::select! {
        reached = fired.wait(RECOVERY) => reached.is_ok(),
        () = settled(&site, k, moment) => fired.wait(LATE).await.is_ok(),
    };
    operators.next(&site).await;
    settled(&site, k, moment).await;
    leave(&site, &["low", "high"]).await;
    reached
}

/// The one runs whole in its first attempt; the other has left, once, and has no pods.
async fn settled(site: &Site, k: u64, moment: Moment) {
    let settled = eventually(RECOVERY, || async {
        site.try_whole("high", GANG as usize).await?;
        for (name, expected) in [
            ("high", (Some(1), Some(0), Some(0))),
            ("low", (Some(2), Some(0), Some(1))),
        ] {
            let job = site.api::<TrainingJob>().get(name).await?;
            anyhow::ensure!(name == "low" || running(&job), "{:#?}", job.status);
            let status = job.status.unwrap_or_default();
            let counts = (status.attempt, status.restarts, status.disruptions);
            anyhow::ensure!(counts == expected, "{name}: {status:#?}");
        }
        anyhow::ensure!(site.pods("low").await.is_empty(), "pods of low");
        Ok(())
    });
    settled
        .await
        .unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
}

/// The operator is killed between the nomination and the first eviction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_not_been_told_stays_if_the_other_is_gone_when_someone_leads_again() {
    let mut operators = begin().await;
    let site = Site::new(&operators.control_plane, "untold", Nodes::new(1).gpus(8)).await;
    let api = site.api::<TrainingJob>();
    site.create(job(&site, "low", None)).await.unwrap();
    wait_for(&api, "low", RECOVERY, running).await.unwrap();
    let before = uids(&site.whole("low", GANG as usize).await);
    let nominates =
        |request: &Request| request.is_write() && request.path.contains("/podgroups/high/status");
    let mut fired = operators.kill_after(1, Moment::BeforeAnswer, nominates);
    site.create(job(&site, "high", Some("high"))).await.unwrap();
    fired.wait(RECOVERY).await.unwrap();
    let journal = site.api::<PodGroup>().get("high").await.unwrap();
    let journal = journal.status.unwrap();
    assert_eq!(journal.phase, Some(PodGroupPhase::Nominated));
    let victims: Vec<_> = journal.victims.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(victims, ["low"]);
    site.delete::<TrainingJob>("high").await;
    operators.next(&site).await;
    // The new leader decides about later jobs.
    site.create(job(&site, "later", None)).await.unwrap();
    let waits = |job: &TrainingJob| {
        let reason = job.status.as_ref().and_then(|s| s.reason);
        reason == Some(Reason::InsufficientCapacity)
    };
    wait_for(&api, "later", RECOVERY, waits).await.unwrap();
    assert_eq!(uids(&site.whole("low", GANG as usize).await), before);
    let low = api.get("low").await.unwrap().status.unwrap();
    assert_eq!((low.attempt, low.disruptions), (Some(1), Some(0)));
}

async fn a_preemption_survives_each_write(moment: Moment) {
    let mut operators = begin().await;
    // 3 children, two journals thrice, evictions, pods, two statuses.
    let least = 3 + 6 + 2 * u64::from(GANG) + 2;
    every_k(least, async |k| survives(&mut operators, k, moment).await).await;
}

at_both_moments!(a_preemption_survives_each_write);
