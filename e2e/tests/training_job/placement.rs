//! All or nothing.

use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::namespace::TestNamespace;

use super::{create, job, message, pods, pods_become, reaches, reason, shared};

#[tokio::test]
async fn a_gang_is_compiled_placed_and_runs() {
    let control_plane = shared().await;
    let namespace = TestNamespace::create(control_plane, "runs").await.unwrap();
    let scope = namespace.name();
    let _nodes = Nodes::new(2)
        .name(&format!("{scope}-{{i}}"))
        .gpus(8)
        .gpu_taint()
        .scope(scope)
        .create(control_plane)
        .await
        .unwrap();
    create(&namespace, job("llm", scope, 2, 8)).await.unwrap();
    let done = reaches(&namespace, "llm", JobPhase::Running).await;
    let status = done.status.unwrap();
    assert_eq!(status.gpus, Some(16));
    assert_eq!(status.attempt, Some(1));
    assert_eq!(status.queue.as_deref(), Some("default"));
    assert!(status.admitted_time.is_some());
    assert_eq!(status.conditions.len(), 10);
    let kinds: Vec<_> = status.compiled.iter().map(|c| c.kind.as_str()).collect();
    assert_eq!(kinds, ["Service", "NetworkPolicy", "PodGroup", "Pod"]);
    let pods = pods(&namespace, "llm").await;
    let nodes: std::collections::BTreeSet<_> = pods
        .iter()
        .map(|p| p.spec.as_ref().unwrap().node_name.clone().unwrap())
        .collect();
    assert_eq!((pods.len(), nodes.len()), (2, 2));
}

#[tokio::test]
async fn of_two_gangs_that_do_not_fit_together_one_runs_whole() {
    let control_plane = shared().await;
    let namespace = TestNamespace::create(control_plane, "two").await.unwrap();
    let scope = namespace.name();
    let _nodes = Nodes::new(10)
        .name(&format!("{scope}-{{i}}"))
        .gpus(10)
        .scope(scope)
        .create(control_plane)
        .await
        .unwrap();
    create(&namespace, job("a", scope, 64, 1)).await.unwrap();
    create(&namespace, job("b", scope, 64, 1)).await.unwrap();
    let (runs, waits) = tokio::select! {
        _ = reaches(&namespace, "a", JobPhase::Running) => ("a", "b"),
        _ = reaches(&namespace, "b", JobPhase::Running) => ("b", "a"),
    };
    let waiting = reaches(&namespace, waits, JobPhase::Queued).await;
    assert_eq!(pods(&namespace, runs).await.len(), 64);
    assert_eq!(pods(&namespace, waits).await.len(), 0);
    assert_eq!(reason(&waiting), "InsufficientCapacity");
    assert!(message(&waiting).contains("28"), "{}", message(&waiting));
    // The place is free again: the other one starts.
    let api = namespace.api::<trellis_api::TrainingJob>();
    api.delete(runs, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    reaches(&namespace, waits, JobPhase::Running).await;
    pods_become(&namespace, runs, 0).await.unwrap();
}

#[tokio::test]
async fn eight_scattered_gpus_are_not_eight_on_one_node() {
    let control_plane = shared().await;
    let namespace = TestNamespace::create(control_plane, "scattered")
        .await
        .unwrap();
    let scope = namespace.name();
    let _nodes = Nodes::new(8)
        .name(&format!("{scope}-{{i}}"))
        .gpus(8)
        .scope(scope)
        .create(control_plane)
        .await
        .unwrap();
    let mut filler = job("filler", scope, 8, 7);
    filler["spec"]["framework"] = json!("None");
    create(&namespace, filler).await.unwrap();
    reaches(&namespace, "filler", JobPhase::Running).await;
    create(&namespace, job("whole", scope, 1, 8)).await.unwrap();
    let waiting = reaches(&namespace, "whole", JobPhase::Queued).await;
    assert_eq!(reason(&waiting), "Fragmented", "{}", message(&waiting));
}

#[tokio::test]
async fn single_gpu_jobs_leave_whole_nodes_free() {
    let control_plane = shared().await;
    let namespace = TestNamespace::create(control_plane, "packed")
        .await
        .unwrap();
    let scope = namespace.name();
    let _nodes = Nodes::new(4)
        .name(&format!("{scope}-{{i}}"))
        .gpus(8)
        .scope(scope)
        .create(control_plane)
        .await
        .unwrap();
    for i in 0..8 {
        create(&namespace, job(&format!("one-{i}"), scope, 1, 1))
            .await
            .unwrap();
    }
    for i in 0..8 {
        reaches(&namespace, &format!("one-{i}"), JobPhase::Running).await;
    }
    create(&namespace, job("three-whole", scope, 3, 8))
        .await
        .unwrap();
    reaches(&namespace, "three-whole", JobPhase::Running).await;
}

#[tokio::test]
async fn twenty_gangs_at_once_are_whole_or_not_there() {
    let control_plane = shared().await;
    let namespace = TestNamespace::create(control_plane, "twenty")
        .await
        .unwrap();
    let scope = namespace.name();
    let _nodes = Nodes::new(4)
        .name(&format!("{scope}-{{i}}"))
        .gpus(8)
        .scope(scope)
        .create(control_plane)
        .await
        .unwrap();
    let creates = (0..20).map(|i| create(&namespace, job(&format!("g-{i}"), scope, 6, 1)));
    futures::future::try_join_all(creates).await.unwrap();
    // 32 GPUs take five gangs of 6. The rest waits, with nothing there.
    let api = namespace.api::<trellis_api::TrainingJob>();
    let settled = trellis_e2e::wait::eventually(super::SOON, || async {
        let jobs = api.list(&Default::default()).await?.items;
        let count = |wanted| {
            jobs.iter()
                .filter(|j| super::phase(j) == Some(wanted))
                .count()
        };
        let (run, wait) = (count(JobPhase::Running), count(JobPhase::Queued));
        anyhow::ensure!((run, wait) == (5, 15), "{run} run, {wait} wait");
        Ok(jobs)
    })
    .await
    .unwrap();
    for job in settled {
        let name = job.metadata.name.clone().unwrap();
        let there = pods(&namespace, &name).await.len();
        let runs = super::phase(&job) == Some(JobPhase::Running);
        assert_eq!(there, if runs { 6 } else { 0 }, "{name}");
    }
}
