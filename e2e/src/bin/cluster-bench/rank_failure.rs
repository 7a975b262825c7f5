//! The time from the failure of a rank to the last pod of the next attempt. Also the cost of
//! reconciling an unchanged job.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_e2e::operator::Operator;
use trellis_e2e::wait::eventually;

use crate::bench::{Bench, MEASUREMENT_TIMEOUT, PodCounter};
use crate::ceiling;
use crate::jobs::{self, BenchCase};
use crate::row::{BenchRow, median};

/// Number of gangs that lose a rank, one after the other.
const RUNS: usize = 7;
const PODS: usize = 64;
/// Number of pods of the reconciled job, and of reconciliations.
const LARGE_JOB_PODS: usize = 1_000;
const RECONCILES: usize = 400;

/// Measures the median of several failures, and a bare client that deletes and creates the same
/// pods.
pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let case = BenchCase {
        jobs: 1,
        pods: PODS,
    };
    let mut bare = Vec::new();
    for _ in 0..RUNS {
        bare.push(ceiling::measure_pod_replacement(bench, case).await?);
    }
    let operator = bench.start_operator().await?;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(measure_failure(bench).await?);
    }
    bench.print_row(&BenchRow::new(
        format!("gang of {PODS}, bare client: all pods deleted, and made again"),
        median(&bare).as_secs_f64() * 1e3,
        "ms",
    ));
    bench.print_row(&BenchRow::new(
        format!("gang of {PODS}, a rank fails to the last pod of the next attempt"),
        median(&runs).as_secs_f64() * 1e3,
        "ms",
    ));
    measure_reconcile_cpu(bench, &operator).await
}

/// Measures one gang whose rank 0 the cluster evicts. An eviction causes no back-off.
async fn measure_failure(bench: &Bench) -> Result<Duration> {
    let namespace = bench.create_namespace().await?;
    let api: Api<TrainingJob> = namespace.api();
    let pods: Api<Pod> = namespace.api();
    let counter = PodCounter::start(&namespace).await?;
    api.create(&PostParams::default(), &jobs::bench_job("j", PODS, 1)?)
        .await?;
    counter.wait_for_count(PODS).await?;
    mark_pods_running(&pods, PODS).await?;
    eventually(MEASUREMENT_TIMEOUT, || async {
        let status = api.get_status("j").await?.status.unwrap_or_default();
        anyhow::ensure!(status.running_time.is_some(), "the job does not run");
        Ok(())
    })
    .await?;
    let counter = PodCounter::start(&namespace).await?;
    let kubelet = tokio::spawn(confirm_deletions(pods.clone()));
    let start = Instant::now();
    let failed = Patch::Merge(json!({"status": {"phase": "Failed", "reason": "Evicted"}}));
    pods.patch_status("j-worker-0", &PatchParams::default(), &failed)
        .await?;
    let duration = counter.wait_for_count(PODS).await?.duration_since(start);
    kubelet.abort();
    bench.delete_jobs_and_pods(&namespace).await?;
    Ok(duration)
}

/// Sets all pods of the job to Running, as a kubelet would.
async fn mark_pods_running(pods: &Api<Pod>, count: usize) -> Result<()> {
    let status = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let status = &Patch::Merge(status);
    let params = &PatchParams::default();
    let names: Vec<String> = (0..count).map(|i| format!("j-worker-{i}")).collect();
    for chunk in names.chunks(32) {
        let patches = chunk
            .iter()
            .map(|name| pods.patch_status(name, params, status));
        try_join_all(patches).await?;
    }
    Ok(())
}

/// Confirms each deletion at once, as a kubelet would.
async fn confirm_deletions(pods: Api<Pod>) -> Result<()> {
    let mut events = pods
        .watch_metadata(&WatchParams::default().timeout(280), "0")
        .await?
        .boxed();
    let no_grace = DeleteParams::default().grace_period(0);
    while let Some(event) = events.try_next().await? {
        let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else {
            continue;
        };
        let goes = pod.metadata.deletion_timestamp.is_some()
            && pod.metadata.deletion_grace_period_seconds != Some(0);
        if let Some(name) = pod.metadata.name.filter(|_| goes) {
            let (pods, no_grace) = (pods.clone(), no_grace.clone());
            tokio::spawn(async move { pods.delete(&name, &no_grace).await.map(drop) });
        }
    }
    Ok(())
}

/// Measures the CPU time that the operator spends to reconcile a large running job of which only an
/// unrelated annotation has changed.
async fn measure_reconcile_cpu(bench: &Bench, operator: &Operator) -> Result<()> {
    let namespace = bench.create_namespace().await?;
    let api: Api<TrainingJob> = namespace.api();
    let pods: Api<Pod> = namespace.api();
    let counter = PodCounter::start(&namespace).await?;
    api.create(
        &PostParams::default(),
        &jobs::bench_job("j", LARGE_JOB_PODS, 1)?,
    )
    .await?;
    counter.wait_for_count(LARGE_JOB_PODS).await?;
    mark_pods_running(&pods, LARGE_JOB_PODS).await?;
    eventually(MEASUREMENT_TIMEOUT, || async {
        let status = api.get_status("j").await?.status.unwrap_or_default();
        let all = format!("{LARGE_JOB_PODS}/{LARGE_JOB_PODS}");
        anyhow::ensure!(status.ready.as_deref() == Some(&*all), "{:?}", status.ready);
        Ok(())
    })
    .await?;
    // Leaves time for the writes that are still pending.
    tokio::time::sleep(Duration::from_secs(4)).await;
    // The CPU time of an idle operator, as the baseline.
    let idle = Instant::now();
    let cpu = operator.cpu_seconds()?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let idle = (operator.cpu_seconds()? - cpu) / idle.elapsed().as_secs_f64();
    let start = Instant::now();
    let cpu = operator.cpu_seconds()?;
    for look in 0..RECONCILES {
        let patch = json!({"metadata": {"annotations": {"bench": look.to_string()}}});
        api.patch("j", &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let cpu_used = operator.cpu_seconds()? - cpu - idle * start.elapsed().as_secs_f64();
    bench.print_row(&BenchRow::new(
        format!("job of {LARGE_JOB_PODS} pods, nothing new: processor time of a look"),
        cpu_used / RECONCILES as f64 * 1e3,
        "ms",
    ));
    bench.delete_jobs_and_pods(&namespace).await
}
