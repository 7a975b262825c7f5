//! One gang of 8 on an idle cluster: from its apply to its last pod.

use std::time::Duration;

use anyhow::Result;
use kube::Api;
use kube::api::PostParams;
use trellis_api::TrainingJob;

use crate::bench::{Bench, Counter};
use crate::ceiling;
use crate::jobs::{self, Case};
use crate::row::{Row, median};

const RUNS: usize = 15;
const PODS: usize = 8;

/// The median over some gangs, one after the other, and the bare client's time
/// for the same writes.
pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let case = Case {
        jobs: 1,
        pods: PODS,
    };
    let bare = median(&{
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(Duration::from_secs_f64(
                PODS as f64 / ceiling::own_writes(bench, case).await?,
            ));
        }
        runs
    });
    let _operator = bench.operator().await?;
    let namespace = bench.namespace().await?;
    let api: Api<TrainingJob> = namespace.api();
    let mut runs = Vec::with_capacity(RUNS);
    for i in 0..RUNS {
        let counter = Counter::start(&namespace).await?;
        let job = jobs::job(&format!("j-{i}"), PODS, 1)?;
        let start = std::time::Instant::now();
        let (created, last) = tokio::join!(
            async { api.create(&PostParams::default(), &job).await },
            counter.count(PODS)
        );
        created?;
        runs.push(last?.duration_since(start));
    }
    let took = median(&runs);
    bench.clear(&namespace).await?;
    bench.print(&Row::new(
        "gang of 8, bare client, all its writes",
        bare.as_secs_f64() * 1e3,
        "ms",
    ));
    bench.print(&Row::new(
        "gang of 8, apply to its last pod",
        took.as_secs_f64() * 1e3,
        "ms",
    ));
    Ok(())
}
