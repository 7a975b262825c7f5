//! The command line.

mod crds;
mod plan;
mod simulate;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::operator;

/// Gangs of GPU pods that run all together or not at all.
#[derive(Parser, Debug)]
#[command(name = "trellis", bin_name = called(), version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the operator.
    Operator(operator::Options),
    /// Print what is generated from the code: CRDs, roles, API reference, reasons.
    Crds(crds::Options),
    /// Show what jobs would be compiled into, and where they would go or why they
    /// would wait. Reads the current cluster, or files; writes nothing. Exit status:
    /// 0 all would run, 1 one would wait, 2 invalid input or no cluster.
    Plan(plan::Options),
    /// Let a recorded workload come, and sum up what the engine made of it.
    Simulate(simulate::Options),
    /// Print the version.
    Version,
}

/// Runs a command. Errors go to standard error, with what to do about them.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Plan(options) => {
            return plan::run(&options).unwrap_or_else(|error| {
                let _ = writeln!(std::io::stderr(), "error: {error:#}");
                ExitCode::from(plan::INVALID)
            });
        }
        Command::Operator(options) => operate(options),
        Command::Crds(options) => crds::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::Version => print(concat!("trellis ", env!("CARGO_PKG_VERSION"), "\n")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn operate(options: operator::Options) -> anyhow::Result<()> {
    crate::telemetry::log(options.log);
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(operator::run(options))
}

/// The words that start us: kubectl runs a program `kubectl-trellis` of the PATH
/// as `kubectl trellis`.
fn called() -> &'static str {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&program).file_stem();
    if name.is_some_and(|n| n == "kubectl-trellis") {
        "kubectl trellis"
    } else {
        "trellis"
    }
}

/// Writes a line to standard error. A reader that has gone is no error.
fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes to standard output. A reader that has gone is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
