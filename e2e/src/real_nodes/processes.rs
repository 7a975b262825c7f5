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
        .max_by_key(|id| start_time(*id))?;
    Pid::from_raw(found)
}

/// Returns when the process started, in clock ticks since the boot: field 22 of proc_pid_stat(5).
/// IDs tell nothing about age, because they start again from the lowest at their limit.
fn start_time(id: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Field 2 is the name in parentheses, and may contain spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(19)?.parse().ok()
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

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Duration;

    use super::*;

    /// Argument by which the test finds its processes.
    const SECONDS: &str = "60.0625";

    #[test]
    fn youngest_process_has_the_latest_start_and_any_id() {
        let sleep = || -> Child {
            let child = Command::new("sleep").arg(SECONDS).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            child
        };
        let first = sleep();
        // The next process gets a lower ID, as after the highest one. Only root may write this.
        let _ = fs::write("/proc/sys/kernel/ns_last_pid", "300");
        let second = sleep();
        let expected = Pid::from_child(&second);
        let youngest = youngest_process(|_, command| command.contains(SECONDS));
        for mut child in [first, second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(youngest, Some(expected));
    }
}
