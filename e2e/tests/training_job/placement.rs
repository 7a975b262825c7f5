//! All or nothing.

pub(super) mod late_binding;
pub(super) mod node_constraints;
pub(super) mod per_gpu_resources;
pub(super) mod rank_order;
pub(super) mod slices;

use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::{Reason, TrainingJob};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message, phase};
use trellis_e2e::wait::eventually;

use super::{create_site, shared_control_plane};

#[tokio::test]
async fn a_gang_is_compiled_placed_and_runs() {
    let nodes = NodeTemplate::new(2).gpus(8).gpu_taint();
    let site = TestSite::new(shared_control_plane().await, "runs", nodes).await;
    site.submit("llm", 2, 8).await;
    let running = site.wait_for_phase("llm", JobPhase::Running).await;
    let status = running.status.unwrap();
    assert_eq!(status.gpus, Some(16));
    assert_eq!(status.attempt, Some(1));
    assert_eq!(status.queue.as_deref(), Some("default"));
    assert!(status.admitted_time.is_some());
    assert_eq!(status.conditions.len(), 10);
    let kinds: Vec<_> = status.compiled.iter().map(|c| c.kind.as_str()).collect();
    assert_eq!(kinds, ["Service", "NetworkPolicy", "PodGroup", "Pod"]);
    let pods = site.list_pods("llm").await;
    let nodes: std::collections::BTreeSet<_> = pods
        .iter()
        .map(|p| p.spec.as_ref().unwrap().node_name.clone().unwrap())
        .collect();
    assert_eq!((pods.len(), nodes.len()), (2, 2));
}

#[tokio::test]
async fn one_of_two_competing_gangs_runs_whole() {
    let nodes = NodeTemplate::new(10).gpus(10);
    let site = TestSite::new(shared_control_plane().await, "two", nodes).await;
    site.submit("a", 64, 1).await;
    site.submit("b", 64, 1).await;
    let (runs, pending) = tokio::select! {
        _ = site.wait_for_phase("a", JobPhase::Running) => ("a", "b"),
        _ = site.wait_for_phase("b", JobPhase::Running) => ("b", "a"),
    };
    let waiting = site
        .wait_until_queued_for(pending, Reason::InsufficientCapacity)
        .await;
    assert_eq!(site.list_pods(runs).await.len(), 64);
    assert_eq!(site.list_pods(pending).await.len(), 0);
    assert!(message(&waiting).contains("28"), "{}", message(&waiting));
    // The nodes are free again, and the other job starts.
    site.delete::<TrainingJob>(runs).await;
    site.wait_for_phase(pending, JobPhase::Running).await;
    site.wait_for_pod_count(runs, 0).await;
}

#[tokio::test]
async fn gang_of_eight_gpus_waits_when_free_gpus_are_fragmented() {
    let site = create_site("scattered", 8).await;
    let mut filler = site.job("filler", 8, 7);
    filler["spec"]["framework"] = json!("None");
    site.create(filler).await.unwrap();
    site.wait_for_phase("filler", JobPhase::Running).await;
    site.submit("whole", 1, 8).await;
    site.wait_until_queued_for("whole", Reason::Fragmented)
        .await;
}

#[tokio::test]
async fn single_gpu_jobs_leave_whole_nodes_free() {
    let site = create_site("packed", 4).await;
    for i in 0..8 {
        site.submit(&format!("one-{i}"), 1, 1).await;
    }
    for i in 0..8 {
        site.wait_for_phase(&format!("one-{i}"), JobPhase::Running)
            .await;
    }
    site.submit("three-whole", 3, 8).await;
    site.wait_for_phase("three-whole", JobPhase::Running).await;
}

#[tokio::test]
async fn twenty_simultaneous_gangs_are_placed_whole_or_not_at_all() {
    let site = create_site("twenty", 4).await;
    let creates = (0..20).map(|i| site.create(site.job(&format!("g-{i}"), 6, 1)));
    futures::future::try_join_all(creates).await.unwrap();
    // Five gangs of 6 GPUs fit on 32 GPUs. The other gangs wait without any pods.
    let api = site.api::<TrainingJob>();
    let settled = eventually(SOON, || async {
        let jobs = api.list(&Default::default()).await?.items;
        let count = |expected| jobs.iter().filter(|j| phase(j) == Some(expected)).count();
        let (run, wait) = (count(JobPhase::Running), count(JobPhase::Queued));
        anyhow::ensure!((run, wait) == (5, 15), "{run} run, {wait} wait");
        Ok(jobs)
    })
    .await
    .unwrap();
    for job in settled {
        let name = job.metadata.name.clone().unwrap();
        let pod_count = site.list_pods(&name).await.len();
        let is_running = phase(&job) == Some(JobPhase::Running);
        assert_eq!(pod_count, if is_running { 6 } else { 0 }, "{name}");
    }
}
