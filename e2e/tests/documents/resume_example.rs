//! Runs the example that resumes from its checkpoint, with Python and without a cluster.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::repository_root;

/// Longest time of a run of one second on a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// Seconds per step of such a run.
const STEP_SECONDS: &str = "0.005";

/// The script in the example's ConfigMap.
fn example_script() -> String {
    let example = std::fs::read_to_string(repository_root().join("examples/resume.yaml")).unwrap();
    let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&example).unwrap();
    let map = objects.iter().find(|o| o["kind"] == "ConfigMap").unwrap();
    map["data"]["train.py"].as_str().unwrap().to_owned()
}

/// Returns the command of one rank of an attempt, with its checkpoints below `folder`.
fn start_rank(folder: &Path, attempt: u32, step_seconds: &str) -> Result<Child> {
    let program = folder.join("train.py");
    std::fs::write(&program, example_script())?;
    let child = Command::new("python3")
        .arg(&program)
        .env("TRELLIS_JOB", "resume")
        .env("TRELLIS_ATTEMPT", attempt.to_string())
        .env("TRELLIS_RANK", "0")
        .env("CHECKPOINTS", folder.join("ckpt"))
        .env("STEPS", "200")
        .env("SAVE_EVERY", "50")
        .env("STEP_SECONDS", step_seconds)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    child.context("python3, which runs the example")
}

/// Runs the rank. Returns its printed lines and its exit code. If `is_stopped`, the rank receives
/// SIGTERM after its first line.
async fn wait_for_rank(mut rank: Child, is_stopped: bool) -> Result<(Vec<String>, Option<i32>)> {
    let mut out = BufReader::new(rank.stdout.take().context("its output")?).lines();
    let mut lines = Vec::new();
    while let Some(line) = timeout(RUN_TIMEOUT, out.next_line()).await?? {
        lines.push(line);
        if is_stopped && lines.len() == 1 {
            let pid = rank.id().context("the process has ended")?.to_string();
            ensure!(Command::new("kill").arg(pid).status().await?.success());
        }
    }
    Ok((lines, rank.wait().await?.code()))
}

#[tokio::test]
async fn resume_example_continues_from_its_checkpoint() {
    let (calm, stopped) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let undisturbed = wait_for_rank(start_rank(calm.path(), 1, STEP_SECONDS).unwrap(), false)
        .await
        .unwrap();
    assert_eq!(undisturbed.1, Some(0));

    // The signal arrives long before the end of the run.
    let first = wait_for_rank(start_rank(stopped.path(), 1, "0.1").unwrap(), true)
        .await
        .unwrap();
    assert_eq!(first.0[0], "attempt 1 goes on at step 0");
    let at = first.0[1].strip_prefix("stopped at step ").unwrap();
    assert_eq!(first.1, Some(143));
    let second = wait_for_rank(start_rank(stopped.path(), 2, STEP_SECONDS).unwrap(), false)
        .await
        .unwrap();
    assert_eq!(second.0[0], format!("attempt 2 goes on at step {at}"));
    assert_ne!(at, "0");
    assert_eq!(second.0.last(), undisturbed.0.last(), "the losses differ");
    assert!(second.0.last().unwrap().starts_with("done: loss "));

    // A rank of the first attempt still runs and writes, because it was only unreachable.
    let state_file = stopped.path().join("ckpt/resume/attempt-000001/state.json");
    std::fs::write(state_file, r#"{"step": 199, "loss": 0.0}"#).unwrap();
    let third = wait_for_rank(start_rank(stopped.path(), 3, STEP_SECONDS).unwrap(), false)
        .await
        .unwrap();
    assert_eq!(third.0[0], "attempt 3 goes on at step 200");
}
