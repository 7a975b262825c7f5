//! One gang of 8 pods on an idle cluster, from its apply to its last pod.

use std::time::Duration;

use anyhow::Result;
use kube::Api;
use kube::api::PostParams;
use trellis_api::TrainingJob;

use crate::bench::{Bench, PodCounter};
use crate::ceiling;
use crate::jobs::{self, BenchCase};
use crate::row::{BenchRow, median};

const RUNS: usize = 15;
const PODS: usize = 8;

/// Measures the median of several gangs, one after the other, and a bare client with the same
/// writes.
pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let case = BenchCase {
        jobs: 1,
        pods: PODS,
    };
    let bare = median(&{
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(Duration::from_secs_f64(
                PODS as f64 / ceiling::measure_gang_write_rate(bench, case).await?,
            ));
        }
        runs
    });
    let _operator = bench.start_operator().await?;
    let namespace = bench.create_namespace().await?;
    let api: Api<TrainingJob> = namespace.api();
    let mut runs = Vec::with_capacity(RUNS);
    for i in 0..RUNS {
        let counter = PodCounter::start(&namespace).await?;
        let job = jobs::bench_job(&format!("j-{i}"), PODS, 1)?;
        let start = std::time::Instant::now();
        let (created, last) = tokio::join!(
            async { api.create(&PostParams::default(), &job).await },
            counter.wait_for_count(PODS)
        );
        created?;
        runs.push(last?.duration_since(start));
    }
    let duration = median(&runs);
    bench.delete_jobs_and_pods(&namespace).await?;
    bench.print_row(&BenchRow::new(
        "gang of 8, bare client, all its writes",
        bare.as_secs_f64() * 1e3,
        "ms",
    ));
    bench.print_row(&BenchRow::new(
        "gang of 8, apply to its last pod",
        duration.as_secs_f64() * 1e3,
        "ms",
    ));
    Ok(())
}
