//! Measures reads about many pending jobs through the API server.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http::StatusCode;
use kube::api::PostParams;
use kube::{Api, Client};
use trellis_api::visibility::Plan;
use trellis_e2e::visibility::{resource_path, send_request};

use crate::bench::Bench;
use crate::jobs::bench_job;
use crate::row::{BenchRow, median};

/// The Accept header of kubectl.
const TABLE_ACCEPT: (&str, &str) = (
    "Accept",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
);
/// Longer than the operator caches an answer.
const CACHE_EXPIRY: Duration = Duration::from_secs(5);
/// Number of requests. Each one needs a new computation of the response.
const REQUESTS: usize = 7;

/// Measures lists and single objects. Each response is computed again, and read again from the
/// cache.
pub(crate) async fn measure(bench: &Bench, waiting: usize, job: &str) -> Result<()> {
    let client = bench.control_plane.client();
    let cases = [
        ("jobstates", resource_path("/jobstates"), &[][..]),
        (
            "jobstates as a table",
            resource_path("/jobstates"),
            &[TABLE_ACCEPT][..],
        ),
        ("queuestates", resource_path("/queuestates"), &[]),
        ("nodestates", resource_path("/nodestates"), &[]),
        ("an explanation", resource_path(job), &[]),
    ];
    for (what, path, headers) in cases {
        let mut anew = Vec::new();
        let mut repeated = Vec::new();
        for _ in 0..REQUESTS {
            tokio::time::sleep(CACHE_EXPIRY).await;
            anew.push(measure_request(&client, &path, headers).await?);
            repeated.push(measure_request(&client, &path, headers).await?);
        }
        for (how, times) in [("anew", &anew), ("again at once", &repeated)] {
            let ms = median(times).as_secs_f64() * 1000.0;
            let name = format!("{waiting} wait, {what}, {how}");
            bench.print_row(&BenchRow::new(name, ms, "ms"));
        }
        let worst = anew.iter().max().copied().unwrap_or_default();
        let name = format!("{waiting} wait, {what}, the longest of {REQUESTS}");
        bench.print_row(&BenchRow::new(name, worst.as_secs_f64() * 1000.0, "ms"));
    }
    Ok(())
}

/// Measures plans of jobs that wait behind the others. The operator looks ahead to their starts, and
/// tries smaller shapes.
pub(crate) async fn measure_plans(bench: &Bench, waiting: usize, namespace: &str) -> Result<()> {
    let api: Api<Plan> = Api::namespaced(bench.control_plane.client(), namespace);
    for (what, pods) in [
        ("a plan of a job of 10 pods", 10),
        ("a plan of a job of 1 pod", 1),
    ] {
        let job = serde_json::to_value(bench_job("planned", pods, 8)?)?;
        let mut times = Vec::new();
        for _ in 0..REQUESTS {
            tokio::time::sleep(CACHE_EXPIRY).await;
            let began = Instant::now();
            let plan = Plan::new(namespace, vec![job.clone()]);
            let answer = api.create(&PostParams::default(), &plan).await?;
            times.push(began.elapsed());
            let planned = answer.status.map_or(0, |status| status.jobs.len());
            ensure!(planned == 1, "{planned} jobs are planned");
        }
        let worst = times.iter().max().copied().unwrap_or_default();
        for (how, time) in [("the median", median(&times)), ("the longest", worst)] {
            let name = format!("{waiting} wait, {what}, {how} of {REQUESTS}");
            bench.print_row(&BenchRow::new(name, time.as_secs_f64() * 1000.0, "ms"));
        }
    }
    Ok(())
}

async fn measure_request(
    client: &Client,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Duration> {
    let began = Instant::now();
    let (code, body) = send_request(client, path, headers).await?;
    let duration = began.elapsed();
    ensure!(code == StatusCode::OK, "{code}: {body}");
    Ok(duration)
}
