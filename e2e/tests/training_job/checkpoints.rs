//! The time to save work, and what is lost of it otherwise.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::preemption::{by_priority, runs, says, submit};
use super::site;

const SAVED: &str = "example.com/saved";

/// Submits a job of two nodes whose pods have five minutes to save, and take long enough for a test
/// to see them.
async fn submit_that_saves(site: &Site, name: &str) {
    let mut job = site.job(name, 2, 8);
    job["spec"]["checkpoint"] = json!({"gracePeriodSeconds": 300, "lastTimeAnnotation": SAVED});
    site.create(job).await.unwrap();
    runs(site, name).await;
    site.stop_slowly(name, "15s").await;
}

/// Waits until pods of the job are being deleted, and gives the seconds that they have for it.
async fn graces(site: &Site, name: &str, count: usize) -> Vec<i64> {
    let mut graces = Vec::new();
    for _ in 0..600 {
        let pods = site.pods(name).await;
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
        "{count} pods of {name} were to be deleted, and {} were",
        graces.len()
    );
}

async fn say_saved(site: &Site, pod: &str, at: &str) {
    let patch = json!({"metadata": {"annotations": {SAVED: at}}});
    let pods = site.api::<Pod>();
    pods.patch(pod, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

fn last_time(status: &TrainingJobStatus) -> Option<Timestamp> {
    Some(status.checkpoint.as_ref()?.last_time.as_ref()?.0)
}

#[tokio::test]
async fn who_does_well_has_its_grace_and_who_has_failed_a_short_one() {
    let site = site("grace", 2).await;
    submit_that_saves(&site, "j").await;
    site.patch("j", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    assert_eq!(graces(&site, "j", 2).await, [300, 300]);
    site.reaches("j", JobPhase::Suspended).await;
    site.pods_become("j", 0).await;
    site.patch("j", json!({"spec": {"suspend": false}}))
        .await
        .unwrap();
    site.runs_again("j", 2).await;
    site.stop_slowly("j", "15s").await;
    site.exit("j-worker-0", "1").await;
    // The failed pod has ended and needs no grace period. The other one is stopped.
    let others = || async {
        let pods = site.pods("j").await;
        let other = pods.iter().find(|pod| pod.name_any() == "j-worker-1");
        let grace = other.and_then(|pod| pod.metadata.deletion_grace_period_seconds);
        anyhow::ensure!(grace == Some(30), "{grace:?}");
        Ok(())
    };
    eventually(trellis_e2e::jobs::SOON, others).await.unwrap();
}

#[tokio::test]
async fn the_deadline_leaves_time_to_save() {
    let site = site("saves", 2).await;
    submit_that_saves(&site, "j").await;
    // The time counts from when it began to run: it is over before the pods stop slowly otherwise.
    let patch = json!({"spec": {"deadlines": {"activeSeconds": 3}}});
    site.patch("j", patch).await.unwrap();
    assert_eq!(graces(&site, "j", 2).await, [300, 300]);
    site.reaches("j", JobPhase::Failed).await;
}

/// By what would be lost without it, the younger one would have to go.
#[tokio::test]
async fn who_has_just_saved_makes_room_for_others() {
    let site = site("saved", 2).await;
    let (queue, class) = by_priority(&site).await;
    let mut old = site.job("old", 1, 8);
    old["spec"]["queueName"] = json!(queue);
    old["spec"]["checkpoint"] = json!({"lastTimeAnnotation": SAVED});
    site.create(old).await.unwrap();
    runs(&site, "old").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    submit(&site, "young", 1, &queue, None).await;
    runs(&site, "young").await;

    say_saved(&site, "old-worker-0", "yesterday").await;
    let told = site.becomes("old", |s| s.checkpoint.is_some()).await;
    let problem = told.status.unwrap().checkpoint.unwrap().problem.unwrap();
    assert!(
        problem.contains("\"yesterday\", which is no time"),
        "{problem}"
    );
    // By a clock that is a second fast.
    let saved = Timestamp::now() + k8s_openapi::jiff::SignedDuration::from_secs(1);
    say_saved(&site, "old-worker-0", &saved.to_string()).await;
    let told = site.becomes("old", |s| last_time(s).is_some()).await;
    assert!(saved <= Timestamp::now(), "it has come");
    assert_eq!(told.status.unwrap().checkpoint.unwrap().problem, None);

    submit(&site, "high", 1, &queue, Some(&class)).await;
    runs(&site, "high").await;
    site.becomes("old", says(Reason::InsufficientCapacity))
        .await;
    runs(&site, "young").await;
}
