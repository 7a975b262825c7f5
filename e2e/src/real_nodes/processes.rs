//! The processes of nodes and pods. They are in child namespaces, so this machine sees them.

use std::fs;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

/// Returns the youngest process whose environment and command line match. In the environment, each
/// variable ends with a zero byte; in the command line, spaces separate the arguments.
pub(super) fn youngest_process(is_wanted: impl Fn(&str, &str) -> bool) -> Option<Pid> {
    let is_wanted = |id: &i32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let command = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        is_wanted(&String::from_utf8_lossy(&environment), &command)
    };
    let all = fs::read_dir("/proc").ok()?.flatten();
    let found = all
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_wanted)
        .max()?;
    Pid::from_raw(found)
}

/// Kills, by SIGKILL, the process of a job's pod with `TRELLIS_RANK=rank` whose command line has
/// `program` in it. If several match, it kills the youngest: a child of the others.
///
/// # Errors
///
/// When no process matches.
pub fn kill_rank(job: &str, rank: u32, program: &str) -> Result<()> {
    let variables = [format!("TRELLIS_JOB={job}"), format!("TRELLIS_RANK={rank}")];
    let found = youngest_process(|environment, command| {
        let has_variable = |variable: &String| environment.split('\0').any(|set| set == variable);
        variables.iter().all(has_variable) && command.contains(program)
    });
    let id = found.with_context(|| format!("no {program:?} of rank {rank} of {job:?} runs"))?;
    Ok(kill_process(id, Signal::KILL)?)
}
