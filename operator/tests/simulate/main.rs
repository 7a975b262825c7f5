//! `trellis simulate` and `trellis replay`, as a user runs them. Whoever changes
//! what they print reads the golden files in `snapshots` and accepts them with
//! `INSTA_UPDATE=always`.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod documents;
mod invalid;
mod replay;
mod scenarios;
mod traces;

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

    /// The lines of `-o jsonl`.
    fn lines(&self) -> Vec<serde_json::Value> {
        let lines = self.out.lines();
        lines.map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs `trellis` in the folder of the input, with something on standard input.
fn trellis(arguments: &[&str], stdin: &str) -> Run {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulate/input");
    let mut child = Command::new(env!("CARGO_BIN_EXE_trellis"))
        .args(arguments)
        .current_dir(folder)
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

/// `trellis simulate` with these arguments.
fn simulate(arguments: &[&str]) -> Run {
    trellis(&[&["simulate"], arguments].concat(), "")
}

/// `trellis simulate -`.
fn simulate_text(text: &str, arguments: &[&str]) -> Run {
    trellis(&[&["simulate", "-"], arguments].concat(), text)
}

/// A scenario with two nodes of 8 GPUs and these events.
fn scenario(events: &str) -> String {
    format!(
        "apiVersion: trellis.dev/v1alpha1
kind: Scenario
spec:
  nodes:
  - {{count: 2, name: \"gpu-{{i}}\", capacity: {{cpu: \"96\", memory: 1Ti, nvidia.com/gpu: \"8\"}}}}
  events:
{events}"
    )
}

/// A job of so many pods of 8 GPUs, to be applied by an event.
fn job(name: &str, pods: u32) -> String {
    format!(
        "{{kind: TrainingJob, metadata: {{name: {name}}}, spec: {{taskGroups: [{{name: w, replicas: {pods}, gpus: 8, image: x, resources: {{cpu: 8, memory: 1Gi}}}}]}}}}"
    )
}
