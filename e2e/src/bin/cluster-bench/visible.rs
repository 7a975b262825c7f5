//! Many wait: how long it takes to read about them through the API server.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http::StatusCode;
use kube::Client;
use trellis_e2e::visibility::{ask, path};

use crate::bench::Bench;
use crate::row::{Row, median};

/// As kubectl asks for it.
const TABLE: (&str, &str) = (
    "Accept",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
);
/// Longer than an answer is kept.
const LATER: Duration = Duration::from_secs(5);
/// Number of requests. Each one needs a new computation of the response.
const RUNS: usize = 7;

/// Lists and single ones, each worked out anew, and once more at once.
pub(crate) async fn measure(bench: &Bench, waiting: usize, job: &str) -> Result<()> {
    let client = bench.control_plane.client();
    let cases = [
        ("jobstates", path("/jobstates"), &[][..]),
        ("jobstates as a table", path("/jobstates"), &[TABLE][..]),
        ("queuestates", path("/queuestates"), &[]),
        ("nodestates", path("/nodestates"), &[]),
        ("an explanation", path(job), &[]),
    ];
    for (what, path, headers) in cases {
        let mut anew = Vec::new();
        let mut again = Vec::new();
        for _ in 0..RUNS {
            tokio::time::sleep(LATER).await;
            anew.push(timed(&client, &path, headers).await?);
            again.push(timed(&client, &path, headers).await?);
        }
        for (how, times) in [("anew", &anew), ("again at once", &again)] {
            let ms = median(times).as_secs_f64() * 1000.0;
            let name = format!("{waiting} wait, {what}, {how}");
            bench.print(&Row::new(name, ms, "ms"));
        }
        let worst = anew.iter().max().copied().unwrap_or_default();
        let name = format!("{waiting} wait, {what}, the longest of {RUNS}");
        bench.print(&Row::new(name, worst.as_secs_f64() * 1000.0, "ms"));
    }
    Ok(())
}

async fn timed(client: &Client, path: &str, headers: &[(&str, &str)]) -> Result<Duration> {
    let began = Instant::now();
    let (code, said) = ask(client, path, headers).await?;
    let took = began.elapsed();
    ensure!(code == StatusCode::OK, "{code}: {said}");
    Ok(took)
}
