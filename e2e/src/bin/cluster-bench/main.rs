//! `cargo cluster-bench`: what the operator makes of the API server's ceiling.
//!
//! First a bare client creates placed pods, 1 to 64 in flight: the ceiling of
//! this machine, this minute. Then TrainingJobs are applied and the time from
//! the first apply to the last pod's creation is taken. No kubelets: what is
//! measured is the operator and the API server. Run the operator's numbers
//! against the ceiling's, never against another run's.

mod ceiling;
mod gangs;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use serde_json::json;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::{ControlPlane, Kubelets, Options};
use trellis_e2e::operator;

#[derive(Parser, Debug)]
struct Arguments {
    /// One JSON object a row instead of a table.
    #[arg(long)]
    json: bool,
    /// Nodes of 8 GPUs.
    #[arg(long, default_value_t = 200)]
    nodes: usize,
}

/// One figure.
struct Row {
    case: String,
    value: f64,
    unit: &'static str,
    /// Of the ceiling that was measured in this run.
    share: Option<f64>,
}

impl Row {
    fn new(case: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            case: case.into(),
            value,
            unit,
            share: None,
        }
    }

    fn of(mut self, ceiling: f64) -> Self {
        self.share = Some(self.value / ceiling);
        self
    }

    fn print(&self, as_json: bool) {
        if as_json {
            println!(
                "{}",
                json!({"case": self.case, "value": self.value, "unit": self.unit, "share": self.share})
            );
        } else {
            let share = self
                .share
                .map_or_else(String::new, |s| format!("{:>6.0} %", s * 100.0));
            println!(
                "{:<48} {:>10.1} {:<10}{share}",
                self.case, self.value, self.unit
            );
        }
    }
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
    let control_plane = ControlPlane::start(Options {
        kubelets: Kubelets::None,
        ..operator::options()?
    })
    .await?;
    operator::install(&control_plane).await?;
    let _nodes = Nodes::new(arguments.nodes)
        .gpus(8)
        .create(&control_plane)
        .await?;
    let mut best = 0.0_f64;
    for in_flight in [1, 4, 8, 16, 32, 64] {
        let rate = ceiling::measure(&control_plane, in_flight, 600).await?;
        best = best.max(rate);
        Row::new(
            format!("bare client, {in_flight} in flight"),
            rate,
            "pods/s",
        )
        .print(arguments.json);
    }
    for (jobs, pods) in [(1, 500), (50, 20), (200, 8)] {
        let case = gangs::Case { jobs, pods };
        for row in gangs::measure(&control_plane, &std::env::current_exe()?, case, best).await? {
            row.print(arguments.json);
        }
    }
    let again = ceiling::measure(&control_plane, 16, 600).await?;
    Row::new("bare client, 16 in flight, at the end", again, "pods/s").print(arguments.json);
    Ok(())
}
