//! The cgroups of real nodes and their pods.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};

use crate::site::namespace::unique_name;

const CGROUP_MOUNT: &str = "/sys/fs/cgroup";

/// The script that removes the cgroups of this name. It waits until its parent process has ended,
/// and then until the processes in the cgroups have ended. Otherwise the cgroups would exist until
/// the machine is restarted.
const REAPER_SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r _
tries=0
while [ "$tries" -lt 200 ]; do
  tops=$(find "$1" -maxdepth 2 -type d -name "$2")
  [ -n "$tops" ] || exit 0
  for top in $tops; do find "$top" -depth -type d -exec rmdir {} +; done
  tries=$((tries + 1))
  sleep 0.05
done
"#;

/// A cgroup in every hierarchy. They are removed when this value is dropped or this process dies,
/// even by SIGKILL.
#[derive(Debug)]
pub(super) struct Cgroups {
    name: String,
    reaper: Child,
}

impl Cgroups {
    pub(super) fn create() -> Result<Self> {
        let name = unique_name("trellis");
        let reaper = Command::new("sh")
            .args(["-c", REAPER_SCRIPT, "reaper", CGROUP_MOUNT, &name])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start sh")?;
        let this = Self { name, reaper };
        for hierarchy in hierarchies() {
            make_cgroup(&hierarchy, &this.name)?;
        }
        Ok(this)
    }

    /// Returns the cgroup of one node in the format of the kubelet.
    pub(super) fn create_node_cgroup(&self, node: &str) -> Result<String> {
        for hierarchy in hierarchies() {
            make_cgroup(&hierarchy.join(&self.name), node)?;
        }
        Ok(format!("/{}/{node}", self.name))
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        drop(self.reaper.stdin.take());
        let _ = self.reaper.wait();
    }
}

/// Returns why this machine cannot create cgroups for nodes, in one line. None: it can.
pub(super) fn unavailable_reason() -> Option<String> {
    match Cgroups::create() {
        Ok(_) if !hierarchies().is_empty() => None,
        Ok(_) => Some(format!("real nodes need cgroups at {CGROUP_MOUNT}")),
        Err(error) => Some(format!("real nodes need cgroups of their own: {error:#}")),
    }
}

/// The hierarchy of cgroup v2, or one hierarchy per controller of v1.
fn hierarchies() -> Vec<PathBuf> {
    let is_one = |folder: &Path| folder.join("cgroup.procs").is_file();
    let mount = PathBuf::from(CGROUP_MOUNT);
    if is_one(&mount) {
        return vec![mount];
    }
    let below = fs::read_dir(&mount).into_iter().flatten().flatten();
    below
        .map(|entry| entry.path())
        .filter(|folder| !folder.is_symlink() && is_one(folder))
        .collect()
}

fn make_cgroup(parent: &Path, name: &str) -> Result<()> {
    let folder = parent.join(name);
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
    // In v1 a new cpuset is empty, so no process can run in it.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let of_parent = fs::read_to_string(parent.join(file)).unwrap_or_default();
        if !of_parent.trim().is_empty() && parent.join("cpuset.sched_load_balance").exists() {
            fs::write(folder.join(file), of_parent)?;
        }
    }
    // In v2 children have only the controllers that their parent enables for them.
    let controllers = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    for controller in controllers.split_whitespace() {
        // Some controllers cannot be enabled here. The kubelet reports those that it needs.
        let _ = fs::write(
            folder.join("cgroup.subtree_control"),
            format!("+{controller}"),
        );
    }
    Ok(())
}
