//! `trellis policy`: what those need who write policies.

mod block;
mod decided;
mod diff;
mod eval;
mod evicted;
mod files;
mod fmt;
mod notes;
mod objects;
mod test;

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Subcommand;
use serde::Serialize;
use trellis_policies::cedar::{Loader, schema_json, schema_text};

use crate::output;

/// Exit status where the answer is no: a test fails, a job may not, something differs.
const NO: u8 = 1;

/// What to do.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Print the schema that policies are written against.
    Schema(SchemaOptions),
    /// Check policies and run their tests: those in the objects, and those in files
    /// of their own (kind `PolicyTests`). Exit status: 0 all pass, 1 a test fails or
    /// too few policies are tested, 2 invalid input.
    Test(test::Options),
    /// Show everything that jobs ask for, and what policies decide about it. Exit
    /// status: 0 all may run, 1 one may not or is not decided, 2 invalid input or no
    /// cluster.
    Eval(eval::Options),
    /// Show what other policies would change for jobs. Exit status: 0 nothing,
    /// 1 something, 2 invalid input or no cluster.
    Diff(diff::Options),
    /// Format the policies in files, and leave everything else in them as it is. Exit
    /// status: 0 done, 1 `--check` found files to format, 2 invalid input.
    Fmt(fmt::Options),
}

/// What to print of the schema.
#[derive(clap::Args, Debug)]
struct SchemaOptions {
    /// How it is printed. Without it, as people read it.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

/// How something is printed, if not for people.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// One object.
    Json,
}

/// Does it. By the exit status it says how that went.
pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    match &options.command {
        Command::Schema(options) => {
            match options.output {
                None => output::print(&schema_text())?,
                Some(Format::Json) => print_json(&schema_json().map_err(|e| anyhow!("{e}"))?)?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Test(options) => test::run(options),
        Command::Eval(options) => eval::run(options),
        Command::Diff(options) => diff::run(options),
        Command::Fmt(options) => fmt::run(options),
    }
}

/// The exit status of an answer.
fn answer(yes: bool) -> ExitCode {
    if yes {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NO)
    }
}

fn loader() -> anyhow::Result<Loader> {
    Loader::new().map_err(|e| anyhow!("{e}"))
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    output::print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}
