//! Tests of `trellis simulate` and `trellis replay`, as a user runs them.
//! After a change to their output, review the golden files in `snapshots` and accept them with
//! `INSTA_UPDATE=always`.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[path = "../command/mod.rs"]
mod command;
mod decisions;
mod documents;
mod invalid;
mod notes;
mod pods;
mod quota_policies;
mod replay;
mod scenarios;
mod traces;

use std::path::{Path, PathBuf};

use serde_json::Value;

use command::Run;

impl Run {
    /// The lines of `-o jsonl`.
    fn lines(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines.map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

/// Time in seconds, event, and job of each line; no job if the event has none.
fn event_tuples(lines: &[Value]) -> Vec<(f64, &str, &str)> {
    lines
        .iter()
        .map(|l| {
            let job = l["job"].as_str().unwrap_or_default();
            (l["t"].as_f64().unwrap(), l["event"].as_str().unwrap(), job)
        })
        .collect()
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `trellis` in the folder of the input, with this text on standard input.
fn trellis(arguments: &[&str], stdin: &str) -> Run {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulate/input");
    let program = Path::new(env!("CARGO_BIN_EXE_trellis"));
    command::run(program, &folder, arguments, stdin)
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

/// A job with this number of pods with 8 GPUs each, for an event that applies it.
fn job(name: &str, pods: u32) -> String {
    format!(
        "{{kind: TrainingJob, metadata: {{name: {name}}}, spec: {{taskGroups: [{{name: w, replicas: {pods}, gpus: 8, image: x, resources: {{limits: {{cpu: 8, memory: 1Gi}}}}}}]}}}}"
    )
}
