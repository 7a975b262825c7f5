//! The processes of ranks, as this machine sees them: containers of real nodes are in namespaces
//! below its own.

use std::fs;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

/// Kills, by SIGKILL, the process of a job's pod with `TRELLIS_RANK=rank` whose command line has
/// `program` in it. Of several the youngest: the one that another has started.
///
/// # Errors
///
/// When there is none.
pub fn kill_rank(job: &str, rank: u32, program: &str) -> Result<()> {
    let wanted = [format!("TRELLIS_JOB={job}"), format!("TRELLIS_RANK={rank}")];
    let is_wanted = |id: &i32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let command = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let environment = String::from_utf8_lossy(&environment);
        wanted
            .iter()
            .all(|variable| environment.split('\0').any(|set| set == variable))
            && command.contains(program)
    };
    let all = fs::read_dir("/proc")?.flatten();
    let found = all
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_wanted)
        .max()
        .with_context(|| format!("no {program:?} of rank {rank} of {job:?} runs"))?;
    let id = Pid::from_raw(found).context("a process of id 0")?;
    Ok(kill_process(id, Signal::KILL)?)
}
