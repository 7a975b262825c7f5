//! Child processes that end with their parent, even if the parent is killed with SIGKILL.

use std::{
    env,
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process, waitid};

/// The script of the reaper. It waits until its stdin closes, which the kernel does when the parent
/// ends. Then it kills the group and removes the folder. The reaper has its own process group, so
/// that Ctrl-C does not end it too early.
const REAPER_SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r _
kill -s KILL -- "-$1" 2>/dev/null
[ -n "$2" ] || exit 0
tries=0
while [ -e "$2" ] && [ "$tries" -lt 100 ]; do
  rm -rf "$2" 2>/dev/null || sleep 0.05
  tries=$((tries + 1))
done
"#;

/// Makes Go collect garbage less often. This saves a sixth of the CPU time of an API server on a
/// small machine, and costs some hundred megabytes.
const GO_GC_PERCENT: &str = "300";

/// A group of child processes with a folder. When this value is dropped or this process dies, even
/// by SIGKILL, the processes are killed and the folder is removed.
#[derive(Debug)]
pub struct ProcessGroup {
    folder: PathBuf,
    /// The leader of the group. It only sleeps, so that the group exists longer than its other
    /// members.
    leader: Child,
    reaper: Child,
}

impl ProcessGroup {
    /// Starts a group that owns `folder`.
    ///
    /// # Errors
    ///
    /// When `sh` cannot be started.
    pub fn new(folder: PathBuf, remove_folder: bool) -> Result<Self> {
        let leader = shell_command("read -r _").spawn().context("start sh")?;
        let removed = if remove_folder {
            folder.as_path()
        } else {
            Path::new("")
        };
        let reaper = shell_command(REAPER_SCRIPT)
            .arg("reaper")
            .arg(leader.id().to_string())
            .arg(removed)
            .spawn()
            .context("start sh")?;
        Ok(Self {
            folder,
            leader,
            reaper,
        })
    }

    /// The folder that the group owns.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts `program` in the group. Its output is appended to `<folder>/logs/<name>.log`.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub fn spawn(&self, name: &str, program: &Path, arguments: &[String]) -> Result<Process> {
        let logs = self.folder.join("logs");
        fs::create_dir_all(&logs)?;
        let log = logs.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log)?;
        let child = Command::new(program)
            .args(arguments)
            .env(
                "GOGC",
                env::var_os("GOGC").unwrap_or_else(|| GO_GC_PERCENT.into()),
            )
            .process_group(i32::try_from(self.leader.id())?)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Process {
            name: name.to_owned(),
            child,
            log,
        })
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Uses the same cleanup as after the death of the parent.
        drop(self.reaper.stdin.take());
        let _ = self.reaper.wait();
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

fn shell_command(script: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// One child process.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

/// Signals for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessSignal {
    /// SIGSTOP: the process is frozen, and its connections stay open.
    Stop,
    /// SIGCONT: the process continues.
    Continue,
    /// SIGTERM: the process ends gracefully.
    Terminate,
    /// SIGKILL.
    Kill,
}

impl Process {
    /// Process id.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status. None: the process still runs.
    ///
    /// # Errors
    ///
    /// If `waitpid` fails.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Sends a signal. When this returns, the process is frozen ([`ProcessSignal::Stop`]) or gone
    /// ([`ProcessSignal::Terminate`], [`ProcessSignal::Kill`]).
    ///
    /// # Errors
    ///
    /// When the process has already ended.
    pub fn signal(&mut self, signal: ProcessSignal) -> Result<()> {
        if let Some(status) = self.try_wait()? {
            anyhow::bail!("{} has ended: {status}", self.name);
        }
        let number = match signal {
            ProcessSignal::Stop => rustix::process::Signal::STOP,
            ProcessSignal::Continue => rustix::process::Signal::CONT,
            ProcessSignal::Terminate => rustix::process::Signal::TERM,
            ProcessSignal::Kill => rustix::process::Signal::KILL,
        };
        let id = Pid::from_child(&self.child);
        kill_process(id, number)?;
        match signal {
            // The threads stop one after the other, so the process may still answer until the last
            // one has stopped.
            ProcessSignal::Stop => {
                let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                waitid(WaitId::Pid(id), until)?;
            }
            ProcessSignal::Continue => {}
            ProcessSignal::Terminate | ProcessSignal::Kill => drop(self.child.wait()?),
        }
        Ok(())
    }

    /// The output of the process and of all earlier processes with its name.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn read_log(&self) -> Result<String> {
        let log_text = fs::read(&self.log)?;
        Ok(String::from_utf8_lossy(&log_text).into_owned())
    }

    /// Returns the last lines of the output, for an error message.
    pub fn log_tail(&self) -> String {
        const LINES: usize = 20;
        let log_text = fs::read(&self.log).unwrap_or_default();
        let log_text = String::from_utf8_lossy(&log_text);
        let lines: Vec<&str> = log_text.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
        format!("the end of {}:\n{last}", self.log.display())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Reaps the child, because otherwise a restarted component leaves a zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::{thread::sleep, time::Duration};

    use super::*;

    fn is_alive(id: u32) -> bool {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    }

    fn start_group() -> ProcessGroup {
        let folder = tempfile::tempdir().unwrap().keep();
        ProcessGroup::new(folder, true).unwrap()
    }

    fn run_script(group: &ProcessGroup, script: &str) -> Process {
        group
            .spawn("test", Path::new("sh"), &["-c".into(), script.into()])
            .unwrap()
    }

    #[test]
    fn dropped_group_kills_all_descendants_and_removes_its_folder() {
        let group = start_group();
        let folder = group.folder().to_owned();
        let process = run_script(&group, "sleep 1000 & echo $! ; trap '' TERM HUP; wait");
        let log = folder.join("logs/test.log");
        let grandchild = loop {
            let log_text = fs::read_to_string(&log).unwrap();
            if let Ok(id) = log_text.trim().parse::<u32>() {
                break id;
            }
            sleep(Duration::from_millis(5));
        };
        assert!(is_alive(process.process_id()) && is_alive(grandchild));
        drop(group);
        // A killed process takes a moment to end on a busy machine.
        for id in [process.process_id(), grandchild] {
            let ended = (0..500).any(|_| {
                sleep(Duration::from_millis(10));
                !is_alive(id)
            });
            assert!(ended, "process {id} still runs");
        }
        assert!(!folder.exists());
    }

    #[test]
    fn frozen_process_can_be_killed() {
        let group = start_group();
        let mut process = run_script(&group, "sleep 1000");
        process.signal(ProcessSignal::Stop).unwrap();
        process.signal(ProcessSignal::Kill).unwrap();
        assert!(process.try_wait().unwrap().is_some());
        assert!(process.signal(ProcessSignal::Continue).is_err());
    }

    #[test]
    fn log_tail_has_the_last_lines() {
        let group = start_group();
        let mut process = run_script(&group, "for i in 1 2 3; do echo line $i; done; exit 3");
        while process.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(5));
        }
        assert!(process.log_tail().ends_with("line 1\nline 2\nline 3"));
    }
}
