//! Real nodes leave nothing on the machine, even if their test is killed.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::{RealNodesFixture, TrialNamespace, TrialOutcome};

/// Returns what the nodes of a process have left: processes, folders, cgroups, interfaces and
/// mounts.
fn find_leftovers(parent: u32, folder: &Path) -> Result<Vec<String>> {
    let mut remaining = Vec::new();
    let name = folder.display().to_string();
    for process in fs::read_dir("/proc")?.flatten() {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(&name) {
            remaining.push(command);
        }
    }
    if folder.exists() {
        remaining.push(name.clone());
    }
    let cgroup = format!("-{parent:x}-");
    for hierarchy in ["", "memory", "pids", "systemd"] {
        let all = fs::read_dir(Path::new("/sys/fs/cgroup").join(hierarchy));
        let names = all.into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        remaining.extend(names.filter(|n| n.starts_with("trellis-") && n.contains(&cgroup)));
    }
    let links = Command::new("ip").args(["-o", "addr"]).output()?;
    let links = String::from_utf8_lossy(&links.stdout).into_owned();
    let links = links.lines().filter(|line| line.contains(" trellis"));
    remaining.extend(links.map(str::to_owned));
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mounts = mounts.lines().filter(|line| line.contains(&name));
    remaining.extend(mounts.map(str::to_owned));
    Ok(remaining)
}

pub(crate) async fn test_killed_process(
    _: &'static RealNodesFixture,
    _: TrialNamespace,
) -> TrialOutcome {
    let mut parent = Command::new(env!("CARGO_BIN_EXE_control-plane"))
        .args(["--real-nodes", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(parent.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let kubeconfig = line.trim().strip_prefix("export KUBECONFIG=").expect(&line);
    let folder = Path::new(kubeconfig).ancestors().nth(2).unwrap();
    let count_folders =
        |remaining: &[String]| remaining.iter().filter(|l| l.contains(" trellis")).count();
    let before = find_leftovers(parent.id(), folder).unwrap();
    for part in ["/kubelet --config=", "/containerd --config ", "/coredns "] {
        assert!(
            before.iter().any(|l| l.contains(part)),
            "{part}: {before:#?}"
        );
    }
    assert!(
        before.iter().any(|l| l.starts_with("trellis-")),
        "{before:#?}"
    );

    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually(SOON, || async {
        let now = find_leftovers(parent.id(), folder)?;
        // Other nodes of this machine keep running, with one interface.
        let interfaces = count_folders(&now);
        ensure!(interfaces < count_folders(&before), "{now:#?}");
        ensure!(now.len() == interfaces, "{now:#?}");
        Ok(())
    })
    .await
    .unwrap();
    TrialOutcome::Passed
}
