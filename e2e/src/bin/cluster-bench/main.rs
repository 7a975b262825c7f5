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
mod children;
mod gangs;
mod jobs;
mod refusal;
mod restart;
mod row;
mod writes;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use bench::Bench;
use jobs::Case;

#[derive(Parser, Debug)]
struct Arguments {
    /// One JSON object a row instead of a table.
    #[arg(long)]
    json: bool,
    /// Nodes of 8 GPUs.
    #[arg(long, default_value_t = 200)]
    nodes: usize,
    /// Cases of gangs: jobs x pods of one GPU. None: 1x500, 50x20 and 200x8, and all else that is measured.
    #[arg(long, value_name = "JOBSxPODS")]
    case: Vec<Case>,
}

/// The operator is this very program under another first argument, so that one
/// build makes both.
fn main() -> Result<ExitCode> {
    if std::env::args().nth(1).as_deref() == Some("operator") {
        return Ok(trellis::cli::run(trellis::cli::Cli::parse()));
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run(Arguments::parse()))?;
    Ok(ExitCode::SUCCESS)
}

async fn run(arguments: Arguments) -> Result<()> {
    let whole = arguments.case.is_empty();
    let cases = if whole {
        [(1, 500), (50, 20), (200, 8)]
            .map(|(jobs, pods)| Case { jobs, pods })
            .to_vec()
    } else {
        arguments.case
    };
    let bench = Bench::start(arguments.nodes, arguments.json).await?;
    let ceiling = ceiling::pods(&bench).await?;
    ceiling::kinds(&bench).await?;
    for case in &cases {
        gangs::measure(&bench, *case, ceiling).await?;
    }
    for case in &cases {
        writes::measure(&bench, *case).await?;
    }
    if whole {
        children::measure(&bench).await?;
        let full = refusal::measure(&bench).await?;
        restart::measure(&bench, full).await?;
    }
    ceiling::again(&bench).await
}
