//! A queue whose gangs end as soon as their pods exist, and release their quota to the next gang.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_e2e::site::namespace::TestNamespace;
use trellis_e2e::site::queues::resource_groups;

use crate::bare_client;
use crate::bench::{Bench, CONCURRENT_APPLIES, MEASUREMENT_TIMEOUT};
use crate::ceiling;
use crate::jobs::{self, BenchCase};
use crate::row::BenchRow;

const QUEUE: &str = "drain";
/// Number of gangs that have quota at the same time.
const CONCURRENT_GANGS: usize = 16;
/// Number of concurrent writes that simulate the kubelets of many nodes.
const CONCURRENT_POD_ENDS: usize = 16;

/// Measures the gangs per second from the first apply to the end of the last pod, as a share of a
/// bare client's rate with the same writes.
pub(crate) async fn measure(bench: &Bench, case: BenchCase) -> Result<()> {
    let bare = ceiling::measure_queue_write_rate(bench, case, CONCURRENT_GANGS).await?;
    let operator = bench.start_operator().await?;
    let namespace = bench.create_namespace().await?;
    let gpus = i64::try_from(CONCURRENT_GANGS.saturating_mul(case.pods))?;
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": QUEUE},
        "spec": {"namespaceSelector": {}, "resourceGroups": resource_groups(&[("default", gpus)])},
    });
    let queue = queue.to_string();
    bench.control_plane.apply_yaml(&queue).await?;
    let duration = drain_queue(&namespace, case).await?;
    let rate = case.jobs as f64 / duration;
    bench.delete_jobs_and_pods(&namespace).await?;
    drop(operator);
    let name = format!("queue of {}, quota for {CONCURRENT_GANGS}", case.name());
    bench.print_row(&BenchRow::new(
        format!("{name}: bare client"),
        bare,
        "gangs/s",
    ));
    bench.print_row(&BenchRow::new(name, rate, "gangs/s").with_ceiling(bare));
    Ok(())
}

/// Measures the seconds from the first apply to the end of the last pod.
async fn drain_queue(namespace: &TestNamespace, case: BenchCase) -> Result<f64> {
    let api: Api<TrainingJob> = namespace.api();
    let pods: Api<Pod> = namespace.api();
    let list = pods.list_metadata(&ListParams::default()).await?;
    let version = list.metadata.resource_version.unwrap_or_default();
    let mut applies = Vec::with_capacity(case.jobs);
    for i in 0..case.jobs {
        let mut job = jobs::bench_job(&format!("j-{i}"), case.pods, 1)?;
        job.spec.queue_name = Some(QUEUE.to_owned());
        let api = api.clone();
        applies.push(async move { api.create(&PostParams::default(), &job).await });
    }
    let start = Instant::now();
    let applied = stream::iter(applies)
        .buffer_unordered(CONCURRENT_APPLIES)
        .try_for_each(|_| async { Ok(()) });
    let params = WatchParams::default().timeout(280);
    let events = pods.watch_metadata(&params, &version).await?;
    let ended = events
        .try_filter_map(|event| async move {
            Ok(match event {
                WatchEvent::Added(pod) => pod.metadata.name,
                _ => None,
            })
        })
        .take(case.total_pods())
        .map_ok(|name| {
            let pods = pods.clone();
            async move { bare_client::end_pod(&pods, &name).await }
        })
        .try_buffer_unordered(CONCURRENT_POD_ENDS)
        .try_fold(0_usize, |ended, ()| async move { Ok(ended + 1) });
    let ended = tokio::time::timeout(MEASUREMENT_TIMEOUT, ended);
    let (applied, ended) = tokio::join!(applied, ended);
    applied?;
    let ended = ended.with_context(|| format!("not all within {MEASUREMENT_TIMEOUT:?}"))??;
    if ended < case.total_pods() {
        bail!(
            "the watch has ended after {ended} of {} pods",
            case.total_pods()
        );
    }
    Ok(start.elapsed().as_secs_f64())
}
