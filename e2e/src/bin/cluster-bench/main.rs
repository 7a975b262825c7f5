//! `cargo cluster-bench`: compares the operator with the greatest rate of the API server, the
//! ceiling.
//!
//! First a bare client creates the same pods as the operator, 1 to 64 in flight, with the
//! operator's own ServiceAccount. Its rate is the ceiling of this machine at this time. Then the
//! benchmark applies TrainingJobs, and measures the time from the first apply to the creation of
//! the last pod. No kubelets run, so this measures only the operator and the API server. Compare
//! the shares of two runs, not their pods per second.

mod bare_client;
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
mod verification;
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
    /// Print one JSON object per row instead of a table.
    #[arg(long)]
    json: bool,
    /// Number of nodes with 8 GPUs.
    #[arg(long, default_value_t = 200)]
    nodes: usize,
    /// Measure only these parts. Default: all.
    #[arg(long, value_name = "PART")]
    only: Vec<BenchPart>,
    /// Cases of gangs: jobs x pods with one GPU each.
    #[arg(long, value_name = "JOBSxPODS", default_values = ["1x500", "50x20", "200x8"])]
    case: Vec<BenchCase>,
    /// Queues of gangs that end as soon as they are placed: jobs x pods with one GPU each.
    #[arg(long, value_name = "JOBSxPODS", default_values = ["536x1", "536x8"])]
    drain: Vec<BenchCase>,
    /// Number of pending jobs while one more job is refused.
    #[arg(long, default_value_t = 10_000)]
    waiting: usize,
    /// Number of policies that the admission webhook evaluates.
    #[arg(long, default_value_t = 1_000)]
    policies: usize,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BenchPart {
    /// Rates of gangs as a share of the ceilings.
    Gangs,
    /// Writes per pod and per gang.
    Writes,
    /// One gang of 8 on an idle cluster.
    Children,
    /// Queues whose gangs end soon and release their quota.
    Drain,
    /// A failed rank, and reconciliations of a large job.
    Failure,
    /// Refusals, `trellis verify` and operator restarts on a full cluster.
    Full,
    /// The admission webhook with 200 requests per second.
    Webhook,
    /// One more job while many jobs are pending.
    Crowd,
}

/// This program is also the operator, `trellis queue` and `trellis verify`, selected by its first
/// argument, so that one build is enough.
fn main() -> Result<ExitCode> {
    if programs::is_started_as(&["queue", "verify"]) {
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
        verification::measure(&bench, &full).await?;
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
