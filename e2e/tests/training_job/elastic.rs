//! Elastic jobs, and best-effort pods.

use std::collections::BTreeMap;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_api::names;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message};
use trellis_e2e::wait::eventually;

use super::create_site;

/// Returns a job of `replicas` pods with one GPU each and `minReplicas: 2`.
fn elastic_job(site: &TestSite, name: &str, replicas: u32) -> Value {
    let mut job = site.job(name, replicas, 1);
    job["spec"]["taskGroups"][0]["minReplicas"] = json!(2);
    job
}

/// Returns a gang `j` of two pods with `gpus` GPUs each, and a best-effort pod with one GPU.
fn job_with_board(site: &TestSite, gpus: u32) -> Value {
    let mut job = site.job("j", 2, gpus);
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let mut board = groups[0].clone();
    board["name"] = json!("board");
    board["replicas"] = json!(1);
    board["gpus"] = json!(1);
    board["membership"] = json!("BestEffort");
    groups.push(board);
    job
}

/// Waits until the job runs with this number of pods, and no pod is missing.
async fn wait_for_ready_pods(site: &TestSite, job: &str, ready: &str) -> TrainingJob {
    site.wait_for_status(job, |s| {
        let reason = s.reason.map(|r| r.as_str());
        reason == Some("Running") && s.ready.as_deref() == Some(ready)
    })
    .await
}

async fn pod_uids_by_name(site: &TestSite, job: &str) -> BTreeMap<String, String> {
    let pods = site.list_pods(job).await.into_iter();
    let live = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none());
    live.map(|pod| (pod.name_any(), pod.uid().unwrap_or_default()))
        .collect()
}

#[tokio::test]
async fn elastic_job_uses_free_capacity_and_yields_it_first() {
    let site = create_site("elastic", 1).await;
    site.submit("other", 1, 6).await;
    site.wait_for_phase("other", JobPhase::Running).await;
    site.create(elastic_job(&site, "j", 4)).await.unwrap();
    let small = wait_for_ready_pods(&site, "j", "2/4").await;
    let gang = pod_uids_by_name(&site, "j").await;
    let status_message = message(&small);
    assert!(
        status_message.contains("the gang runs, on node") && status_message.contains("2 of 4 pods"),
        "{status_message}"
    );
    // The other job has ended. The gang grows, and none of its pods restarts.
    site.delete::<TrainingJob>("other").await;
    wait_for_ready_pods(&site, "j", "4/4").await;
    let grown = pod_uids_by_name(&site, "j").await;
    assert!(gang.iter().all(|(pod, uid)| grown.get(pod) == Some(uid)));
    let third: Pod = site.api().get("j-worker-2").await.unwrap();
    assert!(third.annotations().contains_key(names::EPOCH));
    let env = third.spec.unwrap().containers.remove(0).env.unwrap();
    let variable = |name: &str| env.iter().find(|e| e.name == name)?.value.clone();
    assert_eq!(variable("PET_NNODES").as_deref(), Some("2:4"));
    assert_eq!(variable("TRELLIS_RANK").as_deref(), Some("2"));
    // Another job needs five of the six GPUs that are free or held by surplus pods.
    site.submit("whole", 1, 5).await;
    site.wait_for_phase("whole", JobPhase::Running).await;
    let shrunk = site.wait_for_status("j", |s| s.ready.as_deref() == Some("3/4"));
    let status = shrunk.await.status.unwrap();
    let counts = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(counts, (Some(1), Some(0), Some(0)));
    assert_eq!(status.phase, Some(JobPhase::Running));
    let now = pod_uids_by_name(&site, "j").await;
    assert!(gang.iter().all(|(pod, uid)| now.get(pod) == Some(uid)));
    // All existing pods end.
    for pod in now.keys() {
        site.end_pod(pod, "0").await;
    }
    site.wait_for_phase("j", JobPhase::Complete).await;
}

#[tokio::test]
async fn deleted_rank_returns_while_the_other_ranks_continue() {
    let site = create_site("comeback", 1).await;
    site.create(elastic_job(&site, "j", 3)).await.unwrap();
    wait_for_ready_pods(&site, "j", "3/3").await;
    let before = pod_uids_by_name(&site, "j").await;
    site.delete::<Pod>("j-worker-1").await;
    // The first observed loss is the cause of the wave.
    site.wait_for_status("j", |s| s.disruptions == Some(1))
        .await;
    site.end_pod("j-worker-2", "1").await;
    eventually(SOON, || async {
        let now = pod_uids_by_name(&site, "j").await;
        let is_new = |pod: &str| now.contains_key(pod) && now.get(pod) != before.get(pod);
        ensure!(is_new("j-worker-1") && is_new("j-worker-2"), "{now:?}");
        Ok(())
    })
    .await
    .unwrap();
    let job = wait_for_ready_pods(&site, "j", "3/3").await.status.unwrap();
    assert_eq!(job.attempt, Some(1));
    // Both pods were lost in one wave, whose cause is the cluster.
    assert_eq!((job.restarts, job.disruptions), (Some(0), Some(1)));
    let after = pod_uids_by_name(&site, "j").await;
    assert_eq!(after.get("j-worker-0"), before.get("j-worker-0"));
    assert_ne!(after.get("j-worker-1"), before.get("j-worker-1"));
    assert_ne!(after.get("j-worker-2"), before.get("j-worker-2"));
}

#[tokio::test]
async fn elastic_group_can_be_resized_while_it_runs() {
    let site = create_site("resize", 1).await;
    site.create(elastic_job(&site, "j", 4)).await.unwrap();
    wait_for_ready_pods(&site, "j", "4/4").await;
    let before = pod_uids_by_name(&site, "j").await;
    let stored = serde_json::to_value(site.api::<TrainingJob>().get("j").await.unwrap());
    let mut group = stored.unwrap()["spec"]["taskGroups"].clone();
    group[0]["replicas"] = json!(3);
    site.patch("j", json!({"spec": {"taskGroups": group}}))
        .await
        .unwrap();
    wait_for_ready_pods(&site, "j", "3/3").await;
    site.wait_for_pod_count("j", 3).await;
    let after = pod_uids_by_name(&site, "j").await;
    assert!(after.iter().all(|(pod, uid)| before.get(pod) == Some(uid)));
    // The operator evicts no pod below `minReplicas`, and none of a group that is not elastic.
    group[0]["replicas"] = json!(1);
    let refused = site
        .patch("j", json!({"spec": {"taskGroups": group}}))
        .await;
    let error_text = refused.unwrap_err().to_string();
    assert!(
        error_text.contains("minReplicas must be 1 at least and replicas at most"),
        "{error_text}"
    );
}

#[tokio::test]
async fn best_effort_group_waits_for_capacity_and_ends_with_its_job() {
    let site = create_site("outside", 1).await;
    site.create(job_with_board(&site, 4)).await.unwrap();
    let pending = site.wait_for_status("j", |s| {
        let status_message = s.full_message();
        s.phase == Some(JobPhase::Running) && status_message.contains("when there is room")
    });
    let status_message = message(&pending.await);
    assert!(
        status_message.contains("the gang runs, on node") && status_message.contains("2 of 3 pods"),
        "{status_message}"
    );
    assert!(
        status_message.contains("nvidia.com/gpu"),
        "{status_message}"
    );
    // A later pending job with the same demand comes before the growth of this job.
    for pod in ["j-worker-0", "j-worker-1"] {
        site.end_pod(pod, "0").await;
    }
    site.wait_for_phase("j", JobPhase::Complete).await;
}

#[tokio::test]
async fn best_effort_pod_runs_with_its_gang_and_stops_with_it() {
    let site = create_site("board", 1).await;
    site.create(job_with_board(&site, 1)).await.unwrap();
    wait_for_ready_pods(&site, "j", "3/3").await;
    for pod in ["j-worker-0", "j-worker-1"] {
        site.end_pod(pod, "0").await;
    }
    site.wait_for_phase("j", JobPhase::Complete).await;
    // Finished pods stay with their logs, and running pods are stopped.
    site.wait_for_pod_count("j", 2).await;
}
