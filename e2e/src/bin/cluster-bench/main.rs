//! `cargo cluster-bench`: what the operator makes of the API server's ceiling.
//!
//! First a bare client creates the very pods that the operator would, 1 to 64
//! in flight, under the operator's own ServiceAccount: the ceiling of this
//! machine, this minute. Then TrainingJobs are applied, and the time from the
//! first apply to the last pod's creation is taken. No kubelets: what is
//! measured is the operator and the API server. Compare shares, never the
//! pods a second of two runs.

mod bench;
mod ceiling;
mod command_line;
mod gangs;
mod jobs;
mod pending_gangs;
mod queue_drain;
mod rank_failure;
mod refusal;
mod restart;
mod row;
mod single_gang;
mod visibility_reads;
mod webhook;
mod write_counts;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use bench::Bench;
use jobs::BenchCase;
use trellis_e2e::programs;

#[derive(Parser, Debug)]
struct Arguments {
    /// One JSON object a row instead of a table.
    #[arg(long)]
    json: bool,
    /// Nodes of 8 GPUs.
    #[arg(long, default_value_t = 200)]
    nodes: usize,
    /// Measure these parts alone. None: all.
    #[arg(long, value_name = "PART")]
    only: Vec<BenchPart>,
    /// Cases of gangs: jobs x pods of one GPU.
    #[arg(long, value_name = "JOBSxPODS", default_values = ["1x500", "50x20", "200x8"])]
    case: Vec<BenchCase>,
    /// Queues of gangs that end as soon as they are placed: jobs x pods of one GPU.
    #[arg(long, value_name = "JOBSxPODS", default_values = ["536x1", "536x8"])]
    drain: Vec<BenchCase>,
    /// Jobs that wait while one more is refused.
    #[arg(long, default_value_t = 10_000)]
    waiting: usize,
    /// Policies that the admission webhook decides by.
    #[arg(long, default_value_t = 1_000)]
    policies: usize,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BenchPart {
    /// Gangs as a share of the ceilings.
    Gangs,
    /// Writes a pod and a gang.
    Writes,
    /// One gang of 8 on an idle cluster.
    Children,
    /// Queues whose quota frees all the time.
    Drain,
    /// A rank that fails, and looks at a large job.
    Failure,
    /// A full cluster: what is refused there, and restarts.
    Full,
    /// The admission webhook, asked 200 times a second.
    Webhook,
    /// Many jobs that wait, and one more.
    Crowd,
}

/// The operator, and `trellis queue`, are this very program under another first argument, so that
/// one build makes all.
fn main() -> Result<ExitCode> {
    if programs::is_started_as(&["queue"]) {
        return Ok(programs::run());
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run(Arguments::parse()))?;
    Ok(ExitCode::SUCCESS)
}

async fn run(arguments: Arguments) -> Result<()> {
    let measures = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let bench = Bench::start(arguments.nodes, arguments.json).await?;
    let ceiling = ceiling::measure_pod_rate(&bench).await?;
    ceiling::measure_write_kinds(&bench).await?;
    if measures(BenchPart::Gangs) {
        for case in &arguments.case {
            gangs::measure(&bench, *case, ceiling).await?;
        }
    }
    if measures(BenchPart::Writes) {
        for case in &arguments.case {
            write_counts::measure(&bench, *case).await?;
        }
    }
    if measures(BenchPart::Children) {
        single_gang::measure(&bench).await?;
    }
    if measures(BenchPart::Drain) {
        for case in &arguments.drain {
            queue_drain::measure(&bench, *case).await?;
        }
    }
    if measures(BenchPart::Failure) {
        rank_failure::measure(&bench).await?;
    }
    if measures(BenchPart::Full) {
        let full = refusal::measure(&bench).await?;
        restart::measure(&bench, full).await?;
    }
    ceiling::remeasure_pod_rate(&bench).await?;
    if measures(BenchPart::Webhook) {
        webhook::measure(&bench, arguments.policies).await?;
    }
    if measures(BenchPart::Crowd) {
        pending_gangs::measure(&bench, arguments.waiting).await?;
    }
    Ok(())
}
