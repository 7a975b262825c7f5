//! `trellis plan`, as a user runs it. Whoever changes what it prints reads the
//! golden files in `snapshots` and accepts them with `INSTA_UPDATE=always`.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod cluster;
mod examples;
mod flavors;
mod invalid;
mod usage;
mod waiting;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a run printed, and how it ended.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    /// All of it, for a golden file.
    fn golden(&self) -> String {
        format!(
            "exit status {}\n--- standard output\n{}--- standard error\n{}",
            self.code, self.out, self.err
        )
    }
}

/// The folder with the files that tests plan.
fn input() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan/input")
}

fn file(name: &str) -> String {
    std::fs::read_to_string(input().join(name)).unwrap()
}

/// Runs a program in the folder of the input, without any cluster.
fn run(program: &Path, arguments: &[&str], stdin: &str) -> Run {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(input())
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("KUBECONFIG", "no-such-kubeconfig")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// `trellis plan` with these arguments.
fn plan(arguments: &[&str]) -> Run {
    plan_with(arguments, "")
}

/// `trellis plan` with something on its standard input.
fn plan_with(arguments: &[&str], stdin: &str) -> Run {
    let program = Path::new(env!("CARGO_BIN_EXE_trellis"));
    run(program, &[&["plan"], arguments].concat(), stdin)
}
