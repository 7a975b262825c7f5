//! `trellis policy`: tools for authors of policies.

mod decision_notes;
mod decisions;
mod diff;
mod eval;
mod evictions;
mod fmt;
mod input_files;
mod policy_objects;
mod test;
mod yaml_block;

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Subcommand;
use serde::Serialize;
use trellis_policies::cedar::{PolicyLoader, schema_json, schema_text};

use crate::output;

/// Exit status of a negative answer.
/// A test fails, a job is denied, or a decision differs.
const NEGATIVE: u8 = 1;

/// Options of `trellis policy`.
#[derive(clap::Args, Debug)]
pub(super) struct PolicyOptions {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Subcommand, Debug)]
enum PolicyCommand {
    /// Print the schema for policies.
    Schema(SchemaOptions),
    /// Check policies and run their tests.
    /// The tests are part of the objects or of separate files (kind `PolicyTests`). Exit status: 0
    /// all pass, 1 a test fails or too few policies are tested, 2 invalid input.
    Test(test::TestOptions),
    /// Show all requests of jobs, and the policies' decisions about them.
    /// Exit status: 0 all may run, 1 a job is denied or undecided, 2 invalid input or no cluster.
    Eval(eval::EvalOptions),
    /// Show what other policies would change for jobs.
    /// Exit status: 0 nothing, 1 something, 2 invalid input or no cluster.
    Diff(diff::DiffOptions),
    /// Format the policies in files, and leave the rest of the files unchanged.
    /// Exit status: 0 done, 1 `--check` found files to format, 2 invalid input.
    Fmt(fmt::FmtOptions),
}

/// Options of `trellis policy schema`.
#[derive(clap::Args, Debug)]
struct SchemaOptions {
    /// Output format. Default: text for a terminal.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<PolicyOutputFormat>,
}

/// Output formats for scripts.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum PolicyOutputFormat {
    /// One object.
    Json,
}

/// Runs the subcommand, and returns its exit status.
pub(super) fn run(options: &PolicyOptions) -> anyhow::Result<ExitCode> {
    match &options.command {
        PolicyCommand::Schema(options) => {
            match options.output {
                None => output::print(&schema_text())?,
                Some(PolicyOutputFormat::Json) => {
                    print_json(&schema_json().map_err(|e| anyhow!("{e}"))?)?
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        PolicyCommand::Test(options) => test::run(options),
        PolicyCommand::Eval(options) => eval::run(options),
        PolicyCommand::Diff(options) => diff::run(options),
        PolicyCommand::Fmt(options) => fmt::run(options),
    }
}

/// Returns the exit status of a yes or no answer.
fn to_exit_code(yes: bool) -> ExitCode {
    if yes {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NEGATIVE)
    }
}

fn new_loader() -> anyhow::Result<PolicyLoader> {
    PolicyLoader::new().map_err(|e| anyhow!("{e}"))
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    output::print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}
