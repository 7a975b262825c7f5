//! `trellis policy`: what those need who write policies.

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

/// Exit status where the answer is no: a test fails, a job may not, something differs.
const NEGATIVE: u8 = 1;

/// What to do.
#[derive(clap::Args, Debug)]
pub(super) struct PolicyOptions {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Subcommand, Debug)]
enum PolicyCommand {
    /// Print the schema that policies are written against.
    Schema(SchemaOptions),
    /// Check policies and run their tests: those in the objects, and those in files
    /// of their own (kind `PolicyTests`). Exit status: 0 all pass, 1 a test fails or
    /// too few policies are tested, 2 invalid input.
    Test(test::TestOptions),
    /// Show everything that jobs ask for, and what policies decide about it. Exit
    /// status: 0 all may run, 1 one may not or is not decided, 2 invalid input or no
    /// cluster.
    Eval(eval::EvalOptions),
    /// Show what other policies would change for jobs. Exit status: 0 nothing,
    /// 1 something, 2 invalid input or no cluster.
    Diff(diff::DiffOptions),
    /// Format the policies in files, and leave everything else in them as it is. Exit
    /// status: 0 done, 1 `--check` found files to format, 2 invalid input.
    Fmt(fmt::FmtOptions),
}

/// What to print of the schema.
#[derive(clap::Args, Debug)]
struct SchemaOptions {
    /// How it is printed. Without it, as people read it.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<PolicyOutputFormat>,
}

/// How something is printed, if not for people.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum PolicyOutputFormat {
    /// One object.
    Json,
}

/// Does it. By the exit status it says how that went.
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

/// The exit status of an answer.
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
