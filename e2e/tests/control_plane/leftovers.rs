//! A control plane leaves no processes and no folder, however its parent ends.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// Returns the process ids of all descendants of `parent`.
fn descendants(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{parent}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|id| id.parse().ok()) {
            found.push(child);
            found.extend(descendants(child));
        }
    }
    found
}

fn is_alive(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn command_line(id: u32) -> String {
    fs::read_to_string(format!("/proc/{id}/cmdline"))
        .unwrap_or_default()
        .replace('\0', " ")
}

/// Starts a control plane in its own process. Returns the process and its folder. The process keeps
/// its end of the standard output: a program that cannot print ends.
fn start_control_plane() -> (Child, PathBuf) {
    let mut parent = Command::new(env!("CARGO_BIN_EXE_control-plane"))
        .args(["--nodes", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let kubeconfig = line
        .trim()
        .strip_prefix("export KUBECONFIG=")
        .expect(&line)
        .to_owned();
    let folder = PathBuf::from(kubeconfig)
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    (parent, folder)
}

fn check_no_leftovers(signal: &str) {
    let (mut parent, folder) = start_control_plane();
    let children = descendants(parent.id());
    for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kwok"] {
        let runs = children
            .iter()
            .any(|id| command_line(*id).contains(&format!("/{name} ")));
        assert!(runs, "{name} does not run");
    }
    assert!(folder.join("etcd").exists());

    let sent = Command::new("kill")
        .args([signal, &parent.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    parent.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let remaining: Vec<String> = children
            .iter()
            .filter(|id| is_alive(**id))
            .map(|id| command_line(*id))
            .collect();
        if remaining.is_empty() && !folder.exists() {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "left: {remaining:?}, folder: {}",
            folder.exists()
        );
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn nothing_is_left_after_sigkill() {
    check_no_leftovers("-KILL");
}

#[test]
fn nothing_is_left_after_ctrl_c() {
    check_no_leftovers("-INT");
}
