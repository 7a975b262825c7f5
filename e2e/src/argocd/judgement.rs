//! The status that Argo CD and Flux assign to an object, by their own code and without a cluster.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::GitOpsProgram;

/// The status of one object.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct Judgement {
    /// The status in one word.
    pub status: String,
    /// The message.
    #[serde(default)]
    pub message: String,
}

/// The health that Argo CD computes with Lua scripts, each for a `group/Kind`. `None`: Argo CD has
/// no health check for the object.
///
/// # Errors
///
/// When Argo CD rejects a script, with its message.
pub fn judge_health(
    scripts: &[(String, &Path)],
    objects: &[Value],
) -> Result<Vec<Option<Judgement>>> {
    let mut arguments = vec!["health".to_owned()];
    for (kind, file) in scripts {
        arguments.push(format!("--lua={kind}={}", file.display()));
    }
    run_judge(GitOpsProgram::ArgoCd, &arguments, objects)
}

/// The kstatus status of objects: Current, InProgress, Failed, ...
///
/// # Errors
///
/// When the program cannot be built, or kstatus returns an error.
pub fn judge_kstatus(objects: &[Value]) -> Result<Vec<Judgement>> {
    run_judge(GitOpsProgram::Kstatus, &[], objects)
}

fn run_judge<T: for<'d> Deserialize<'d>>(
    program: GitOpsProgram,
    arguments: &[String],
    objects: &[Value],
) -> Result<Vec<T>> {
    let mut child = Command::new(program.find_or_build()?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start it")?;
    let input: Vec<String> = objects.iter().map(Value::to_string).collect();
    let mut stdin = child.stdin.take().context("no stdin")?;
    // The program answers each object at once. Its output must be read during the write, or both
    // processes block.
    let writer = std::thread::spawn(move || stdin.write_all(input.join("\n").as_bytes()));
    let output = child.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program:?}: {stderr}");
    writer
        .join()
        .map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    let lines = String::from_utf8(output.stdout)?;
    let answers: Result<Vec<T>, _> = lines.lines().map(serde_json::from_str).collect();
    let answers = answers?;
    ensure!(
        answers.len() == objects.len(),
        "{} answers: {lines}",
        answers.len()
    );
    Ok(answers)
}
