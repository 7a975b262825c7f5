//! Many pending gangs: the time until one more gang has its reason.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{ListParams, PostParams};
use trellis_api::{Reason, TrainingJob};
use trellis_e2e::control_plane::free_port;
use trellis_e2e::visibility;
use trellis_e2e::wait::eventually;

use crate::bench::{Bench, CONCURRENT_APPLIES};
use crate::ceiling;
use crate::command_line;
use crate::jobs;
use crate::refusal;
use crate::row::BenchRow;
use crate::visibility_reads;

/// Longest time until all gangs have their reason.
const REASON_TIMEOUT: Duration = Duration::from_secs(900);

/// Submits gangs of whole nodes, so that the first ones fill the cluster and the others wait, and
/// then one that can never fit. The objects are left in place: deleting them takes minutes.
pub(crate) async fn measure(bench: &Bench, waiting: usize) -> Result<()> {
    let port = free_port()?;
    visibility::install(&bench.control_plane, port).await?;
    let operator = bench
        .start_operator_with(&visibility::launch_options("crowd", port))
        .await?;
    visibility::wait_for_availability(&bench.control_plane, true).await?;
    let namespace = bench.create_namespace().await?;
    let api: Api<TrainingJob> = namespace.api();
    measure_refusal_latency(bench, &api, 0).await?;
    let mut applies = Vec::with_capacity(waiting);
    for i in 0..waiting {
        let job = jobs::bench_job(&format!("w-{i}"), 10, 8)?;
        let api = api.clone();
        applies.push(async move { api.create(&PostParams::default(), &job).await });
    }
    stream::iter(applies)
        .buffer_unordered(CONCURRENT_APPLIES)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let last = format!("w-{}", waiting.saturating_sub(1));
    eventually(REASON_TIMEOUT, || async {
        let job = api.get_status(&last).await?;
        let reason = job.status.and_then(|status| status.reason);
        anyhow::ensure!(reason == Some(Reason::InsufficientCapacity), "{reason:?}");
        Ok(())
    })
    .await?;
    // kube-controller-manager processes their Services for minutes and uses a whole core.
    let slices: Api<EndpointSlice> = namespace.api();
    eventually(REASON_TIMEOUT, || async {
        let slice_list = slices.list_metadata(&ListParams::default()).await?.items;
        anyhow::ensure!(
            slice_list.len() >= waiting,
            "{} of {waiting}",
            slice_list.len()
        );
        Ok(())
    })
    .await?;
    measure_refusal_latency(bench, &api, waiting).await?;
    let job = format!("/namespaces/{}/explanations/{last}", namespace.name());
    visibility_reads::measure(bench, waiting, &job).await?;
    visibility_reads::measure_plans(bench, waiting, namespace.name()).await?;
    command_line::measure(bench, waiting).await?;
    let memory = operator.resident_bytes()? / 1_048_576.0;
    let name = format!("{waiting} jobs wait: resident");
    bench.print_row(&BenchRow::new(name, memory, "MiB"));
    Ok(())
}

/// Measures the time until a gang that can never fit has its reason while many gangs are pending,
/// and the time of a bare client for the same writes.
async fn measure_refusal_latency(
    bench: &Bench,
    api: &Api<TrainingJob>,
    waiting: usize,
) -> Result<()> {
    let bare = ceiling::measure_pending_gang_writes(bench).await?;
    let pods = bench.nodes.saturating_add(1);
    let name = format!("never-{waiting}");
    let ms = refusal::median_latency(api, &name, pods, Reason::ExceedsCluster).await?;
    let writes = format!("{waiting} wait, bare client: its apply, children and status");
    bench.print_row(&BenchRow::new(writes, bare, "ms"));
    let reason = format!("{waiting} wait, a gang that can never fit: to its reason");
    bench.print_row(&BenchRow::new(reason, ms, "ms").with_ceiling(bare));
    Ok(())
}
