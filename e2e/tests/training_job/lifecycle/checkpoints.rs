//! The time for checkpoints, and the work that a preemption loses.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::create_site;
use crate::queues::preemption::{
    create_priority_queue, has_reason, submit_to_queue, wait_for_first_attempt,
};

const SAVED_ANNOTATION: &str = "example.com/saved";

/// Submits a job of two nodes. Its pods have a grace period of five minutes, and stop slowly enough
/// for the test to observe them.
async fn submit_saving_job(site: &TestSite, name: &str) {
    let mut job = site.job(name, 2, 8);
    job["spec"]["checkpoint"] =
        json!({"gracePeriodSeconds": 300, "lastTimeAnnotation": SAVED_ANNOTATION});
    site.create(job).await.unwrap();
    wait_for_first_attempt(site, name).await;
    site.delay_pod_stop(name, "15s").await;
}

/// Waits until pods of the job are being deleted, and returns their grace period in seconds.
async fn wait_for_grace_seconds(site: &TestSite, name: &str, count: usize) -> Vec<i64> {
    let mut graces = Vec::new();
    for _ in 0..600 {
        let pods = site.list_pods(name).await;
        let going = pods
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_some());
        graces = going
            .filter_map(|pod| pod.metadata.deletion_grace_period_seconds)
            .collect();
        if graces.len() == count {
            return graces;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!(
        "only {} of {count} pods of {name} are deleted",
        graces.len()
    );
}

async fn report_checkpoint(site: &TestSite, pod: &str, at: &str) {
    let patch = json!({"metadata": {"annotations": {SAVED_ANNOTATION: at}}});
    let pods = site.api::<Pod>();
    pods.patch(pod, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

fn last_checkpoint_time(status: &TrainingJobStatus) -> Option<Timestamp> {
    Some(status.checkpoint.as_ref()?.last_time.as_ref()?.0)
}

#[tokio::test]
async fn suspended_job_has_its_grace_period_and_a_failed_job_a_short_one() {
    let site = create_site("grace", 2).await;
    submit_saving_job(&site, "j").await;
    site.patch("j", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    assert_eq!(wait_for_grace_seconds(&site, "j", 2).await, [300, 300]);
    site.wait_for_phase("j", JobPhase::Suspended).await;
    site.wait_for_pod_count("j", 0).await;
    site.patch("j", json!({"spec": {"suspend": false}}))
        .await
        .unwrap();
    site.wait_for_running_attempt("j", 2).await;
    site.delay_pod_stop("j", "15s").await;
    site.end_pod("j-worker-0", "1").await;
    // The failed pod has ended and needs no grace period. The other one is stopped.
    let check_other_pod = || async {
        let pods = site.list_pods("j").await;
        let other = pods.iter().find(|pod| pod.name_any() == "j-worker-1");
        let grace = other.and_then(|pod| pod.metadata.deletion_grace_period_seconds);
        anyhow::ensure!(grace == Some(30), "{grace:?}");
        Ok(())
    };
    eventually(SOON, check_other_pod).await.unwrap();
}

#[tokio::test]
async fn deadline_leaves_time_for_a_checkpoint() {
    let site = create_site("saves", 2).await;
    submit_saving_job(&site, "j").await;
    // The grace period starts when the job starts to run, so it is over before the slow pods would
    // stop.
    let patch = json!({"spec": {"deadlines": {"activeSeconds": 3}}});
    site.patch("j", patch).await.unwrap();
    assert_eq!(wait_for_grace_seconds(&site, "j", 2).await, [300, 300]);
    site.wait_for_phase("j", JobPhase::Failed).await;
}

/// Without checkpoints, the younger job would lose less work, so it would be the victim.
#[tokio::test]
async fn job_with_a_recent_checkpoint_is_preempted_first() {
    let site = create_site("saved", 2).await;
    let (queue, class) = create_priority_queue(&site).await;
    let mut old = site.job("old", 1, 8);
    old["spec"]["queueName"] = json!(queue);
    old["spec"]["checkpoint"] = json!({"lastTimeAnnotation": SAVED_ANNOTATION});
    site.create(old).await.unwrap();
    wait_for_first_attempt(&site, "old").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    submit_to_queue(&site, "young", 1, &queue, None).await;
    wait_for_first_attempt(&site, "young").await;

    report_checkpoint(&site, "old-worker-0", "yesterday").await;
    let reported = site
        .wait_for_status("old", |s| s.checkpoint.is_some())
        .await;
    let problem = reported
        .status
        .unwrap()
        .checkpoint
        .unwrap()
        .problem
        .unwrap();
    assert!(
        problem.contains("\"yesterday\", which is no time"),
        "{problem}"
    );
    // The clock of the job is one second fast.
    let saved = Timestamp::now() + k8s_openapi::jiff::SignedDuration::from_secs(1);
    report_checkpoint(&site, "old-worker-0", &saved.to_string()).await;
    let reported = site
        .wait_for_status("old", |s| last_checkpoint_time(s).is_some())
        .await;
    assert!(
        saved <= Timestamp::now(),
        "the operator has accepted a checkpoint time in the future"
    );
    assert_eq!(reported.status.unwrap().checkpoint.unwrap().problem, None);

    submit_to_queue(&site, "high", 1, &queue, Some(&class)).await;
    wait_for_first_attempt(&site, "high").await;
    site.wait_for_status("old", has_reason(Reason::InsufficientCapacity))
        .await;
    wait_for_first_attempt(&site, "young").await;
}
