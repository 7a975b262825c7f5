//! The ceiling: the rate at which a bare client makes the same writes as the operator.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use trellis_api::TrainingJob;

use crate::bare_client::{
    BareClient, GangWrite, MAX_IN_FLIGHT, compile_job, create_compiled_job, planned_pods,
};
use crate::bench::Bench;
use crate::jobs::{self, BenchCase};
use crate::refusal;
use crate::row::{BenchRow, median};

/// Number of pods of one measurement.
const PODS: usize = 600;
/// Number of gangs, of one pod each, for the measurement of each kind of write.
const GANGS_PER_KIND: usize = 200;

/// Measures the best rate in pods per second.
pub(crate) async fn measure_pod_rate(bench: &Bench) -> Result<f64> {
    let mut best = 0.0_f64;
    for in_flight in [1, 4, 8, 16, 32, 64] {
        let rate = create_pods(bench, in_flight).await?;
        best = best.max(rate);
        let name = format!("bare client, {in_flight} in flight");
        bench.print_row(&BenchRow::new(name, rate, "pods/s"));
    }
    Ok(best)
}

/// Repeats the measurement at the end of the run, to show the drift of the machine.
pub(crate) async fn remeasure_pod_rate(bench: &Bench) -> Result<()> {
    let rate = create_pods(bench, MAX_IN_FLIGHT).await?;
    let name = format!("bare client, {MAX_IN_FLIGHT} in flight, at the end");
    bench.print_row(&BenchRow::new(name, rate, "pods/s"));
    Ok(())
}

async fn create_pods(bench: &Bench, in_flight: usize) -> Result<f64> {
    let namespace = bench.create_namespace().await?;
    let compiled = create_compiled_job(&namespace, "ceiling", PODS).await?;
    let api: Api<Pod> = Api::namespaced(bench.operator_rights_client().await?, namespace.name());
    // The first request opens the connection.
    api.get_opt("none").await?;
    let pods = planned_pods(&compiled, bench.nodes);
    let start = Instant::now();
    stream::iter(pods)
        .map(|pod| {
            let api = api.clone();
            async move { api.create(&PostParams::default(), &pod).await }
        })
        .buffer_unordered(in_flight)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let rate = PODS as f64 / start.elapsed().as_secs_f64();
    bench.delete_jobs_and_pods(&namespace).await?;
    Ok(rate)
}

/// Measures the pods per second of a bare client that makes all writes of a gang: its three
/// children, the journal twice, the status, an event, and the pods. It has as many writes in flight
/// as increase the rate.
pub(crate) async fn measure_gang_write_rate(bench: &Bench, case: BenchCase) -> Result<f64> {
    let namespace = bench.create_namespace().await?;
    let mut all = Vec::with_capacity(case.jobs);
    for i in 0..case.jobs {
        all.push(create_compiled_job(&namespace, &format!("j-{i}"), case.pods).await?);
    }
    let bare = BareClient::new(bench, &namespace).await?;
    let start = Instant::now();
    let gangs: Vec<_> = all.iter().map(|job| bare.write_gang(job)).collect();
    stream::iter(gangs)
        .buffer_unordered(MAX_IN_FLIGHT)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    let rate = case.total_pods() as f64 / start.elapsed().as_secs_f64();
    bench.delete_jobs_and_pods(&namespace).await?;
    Ok(rate)
}

/// Measures how long a bare client takes to delete the pods of a gang and to create them again. It
/// has as many writes in flight as increase the rate.
pub(crate) async fn measure_pod_replacement(bench: &Bench, case: BenchCase) -> Result<Duration> {
    let namespace = bench.create_namespace().await?;
    let job = create_compiled_job(&namespace, "j", case.pods).await?;
    let pods = planned_pods(&job, bench.nodes);
    let api: Api<Pod> = Api::namespaced(bench.operator_rights_client().await?, namespace.name());
    let create = async || {
        let creates = pods.iter().map(|pod| {
            let api = api.clone();
            async move { api.create(&PostParams::default(), pod).await.map(drop) }
        });
        let creates: Vec<_> = creates.collect();
        stream::iter(creates)
            .buffer_unordered(MAX_IN_FLIGHT)
            .try_for_each(|()| async { Ok(()) })
            .await
    };
    create().await?;
    let start = Instant::now();
    let no_grace = DeleteParams::default().grace_period(0);
    let deletes = pods.iter().map(|pod| {
        let (api, no_grace) = (api.clone(), no_grace.clone());
        let name = pod.metadata.name.clone().unwrap_or_default();
        async move { api.delete(&name, &no_grace).await.map(drop) }
    });
    let deletes: Vec<_> = deletes.collect();
    stream::iter(deletes)
        .buffer_unordered(MAX_IN_FLIGHT)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    create().await?;
    let duration = start.elapsed();
    bench.delete_jobs_and_pods(&namespace).await?;
    Ok(duration)
}

/// Measures the writes of a bare client for a pending gang, from the creation of the job to its
/// reason, in milliseconds. It returns the median of several sequential runs. A running operator
/// ignores these jobs.
pub(crate) async fn measure_pending_gang_writes(bench: &Bench) -> Result<f64> {
    let namespace = bench.create_namespace().await?;
    let bare = BareClient::new(bench, &namespace).await?;
    let api: Api<TrainingJob> = namespace.api();
    let mut runs = Vec::new();
    for i in 0..refusal::RUNS {
        let mut job = jobs::bench_job(&format!("j-{i}"), 10, 8)?;
        job.spec.managed_by = Some("example.com/nobody".to_owned());
        let start = Instant::now();
        let job = api.create(&PostParams::default(), &job).await?;
        let job = compile_job(job)?;
        bare.write_children(&job).await?;
        bare.write_kind(&job, GangWrite::Status).await?;
        runs.push(start.elapsed());
    }
    bench.delete_jobs_and_pods(&namespace).await?;
    Ok(median(&runs).as_secs_f64() * 1e3)
}

/// Measures the gangs per second of a bare client that makes all writes of a queue of gangs, from
/// their creation to their end. These are the writes of a placed gang and the writes for its end:
/// the status of each pod, the journal, a status and an event. Each gang after the first `at_once`
/// also gets a status and an event with the reason why it waits.
pub(crate) async fn measure_queue_write_rate(
    bench: &Bench,
    case: BenchCase,
    at_once: usize,
) -> Result<f64> {
    let namespace = bench.create_namespace().await?;
    let bare = BareClient::new(bench, &namespace).await?;
    let start = Instant::now();
    let gangs =
        (0..case.jobs).map(|i| bare.write_queued_gang(&namespace, i, case.pods, i >= at_once));
    let gangs: Vec<_> = gangs.collect();
    stream::iter(gangs)
        .buffer_unordered(MAX_IN_FLIGHT)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    let rate = case.jobs as f64 / start.elapsed().as_secs_f64();
    bench.delete_jobs_and_pods(&namespace).await?;
    Ok(rate)
}

/// Measures the cost of each kind of write for a bare client, in milliseconds per gang: one kind
/// after the other, 16 writes in flight.
pub(crate) async fn measure_write_kinds(bench: &Bench) -> Result<()> {
    let namespace = bench.create_namespace().await?;
    let mut all = Vec::with_capacity(GANGS_PER_KIND);
    let start = Instant::now();
    for i in 0..GANGS_PER_KIND {
        all.push(create_compiled_job(&namespace, &format!("j-{i}"), 1).await?);
    }
    let each = |start: Instant| start.elapsed().as_secs_f64() * 1e3 / GANGS_PER_KIND as f64;
    bench.print_row(&BenchRow::new(
        "TrainingJob, one at a time",
        each(start),
        "ms",
    ));
    let bare = BareClient::new(bench, &namespace).await?;
    for kind in GangWrite::ALL {
        let start = Instant::now();
        try_join_all(all.iter().map(|job| bare.write_kind(job, kind))).await?;
        let name = format!("bare client, 16 in flight: {kind:?}");
        bench.print_row(&BenchRow::new(name, each(start), "ms a write"));
    }
    bench.delete_jobs_and_pods(&namespace).await
}
