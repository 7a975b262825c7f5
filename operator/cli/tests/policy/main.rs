//! Tests of `trellis policy`, as a user runs it.
//! After a change to its output, review the golden files in `snapshots` and accept them with
//! `INSTA_UPDATE=always`.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[path = "../command/mod.rs"]
mod command;
mod diff;
mod documents;
mod eval;
mod fmt;
mod invalid_input;
mod library;
mod schema;
mod tests;

use std::path::{Path, PathBuf};

use command::Run;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder with the files that tests read.
fn input() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policy/input")
}

fn file(name: &str) -> String {
    std::fs::read_to_string(input().join(name)).unwrap()
}

/// `trellis policy` in a folder, with this text on its standard input.
fn policy_in(folder: &Path, arguments: &[&str], stdin: &str) -> Run {
    let program = Path::new(env!("CARGO_BIN_EXE_trellis"));
    command::run(program, folder, &[&["policy"], arguments].concat(), stdin)
}

/// `trellis policy test` with the folder of policies and tests on standard input.
fn test_by(tests: &str) -> Run {
    policy_in(&input(), &["test", "policies", "-"], tests)
}

/// `trellis policy` in the folder of the input.
fn policy(arguments: &[&str]) -> Run {
    policy_in(&input(), arguments, "")
}

/// Exit status and standard output of a run without messages on standard error.
fn quiet(run: &Run) -> (i32, &str) {
    assert_eq!(run.err, "");
    (run.code, &run.out)
}
