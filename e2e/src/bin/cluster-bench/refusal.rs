//! Measures the time from the apply of a gang that does not fit on a full cluster to its reason.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use kube::Api;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use trellis_api::{Reason, TrainingJob};
use trellis_e2e::operator::Operator;
use trellis_e2e::site::namespace::TestNamespace;

use crate::bench::{Bench, MEASUREMENT_TIMEOUT};
use crate::jobs::{self, BenchCase};
use crate::row::BenchRow;

/// Number of gangs for the median.
pub(crate) const RUNS: usize = 9;
/// Time after which a watch is open.
const WATCH_OPEN_PAUSE: Duration = Duration::from_millis(200);

/// A cluster whose GPUs are all in use.
pub(crate) struct FullCluster {
    pub(crate) namespace: TestNamespace,
    pub(crate) operator: Operator,
    pub(crate) pods: usize,
}

/// Fills the cluster with gangs of 8 GPUs, then submits a gang that needs 10 x 8 GPUs.
pub(crate) async fn measure(bench: &Bench) -> Result<FullCluster> {
    let operator = bench.start_operator().await?;
    let namespace = bench.create_namespace().await?;
    let case = BenchCase {
        jobs: bench.nodes,
        pods: 8,
    };
    bench.place_jobs(&namespace, case).await?;
    // The operator has written the last statuses.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let api: Api<TrainingJob> = namespace.api();
    let median = median_latency(&api, "too-big", 10, Reason::InsufficientCapacity).await?;
    bench.print_row(&BenchRow::new(
        "10 x 8 GPUs refused on a full cluster",
        median,
        "ms",
    ));
    Ok(FullCluster {
        namespace,
        operator,
        pods: case.total_pods(),
    })
}

/// Measures the milliseconds from the apply of a gang of whole nodes to the reason in its status.
/// It returns the median of several gangs, one after the other.
pub(crate) async fn median_latency(
    api: &Api<TrainingJob>,
    name: &str,
    pods: usize,
    reason: Reason,
) -> Result<f64> {
    let mut runs = Vec::new();
    for i in 0..RUNS {
        let job = jobs::bench_job(&format!("{name}-{i}"), pods, 8)?;
        runs.push(measure_refusal(api, &job, reason).await?);
    }
    runs.sort_by(f64::total_cmp);
    Ok(runs.get(runs.len() / 2).copied().unwrap_or_default() * 1e3)
}

async fn measure_refusal(api: &Api<TrainingJob>, job: &TrainingJob, reason: Reason) -> Result<f64> {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let version = api
        .list_metadata(&ListParams::default().limit(1))
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let params = WatchParams::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(280);
    let watched = api.clone();
    let watch = async move {
        let mut events = watched.watch(&params, &version).await?.boxed();
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Modified(job) = event
                && job.status.is_some_and(|s| s.reason == Some(reason))
            {
                return Ok(Instant::now());
            }
        }
        bail!("the watch has ended")
    };
    let watch = tokio::spawn(tokio::time::timeout(MEASUREMENT_TIMEOUT, watch));
    // The API server does not answer a watch before its first event. The request after the pause
    // opens a second connection, for the apply: opening it takes longer than the apply.
    tokio::time::sleep(WATCH_OPEN_PAUSE).await;
    api.get_metadata_opt(name).await?;
    let start = Instant::now();
    api.create(&PostParams::default(), job).await?;
    Ok(watch
        .await?
        .context("no reason appeared")??
        .duration_since(start)
        .as_secs_f64())
}
