//! Tests of `trellis plan`, as a user runs it.
//! After a change to its output, review the golden files in `snapshots` and accept them with
//! `INSTA_UPDATE=always`.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod claims;
mod cluster;
#[path = "../command/mod.rs"]
mod command;
mod examples;
mod existing_jobs;
mod flavors;
mod invalid;
mod notes;
mod pending_jobs;
mod per_gpu;
mod requester;
mod usage;

use std::path::{Path, PathBuf};

use command::Run;

/// The folder with the files that tests plan.
fn input() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan/input")
}

fn file(name: &str) -> String {
    std::fs::read_to_string(input().join(name)).unwrap()
}

/// Runs a program in the folder of the input.
fn run(program: &Path, arguments: &[&str], stdin: &str) -> Run {
    command::run(program, &input(), arguments, stdin)
}

/// `trellis plan` with these arguments.
fn plan(arguments: &[&str]) -> Run {
    plan_with(arguments, "")
}

/// `trellis plan` with this text on its standard input.
fn plan_with(arguments: &[&str], stdin: &str) -> Run {
    let program = Path::new(env!("CARGO_BIN_EXE_trellis"));
    run(program, &[&["plan"], arguments].concat(), stdin)
}
