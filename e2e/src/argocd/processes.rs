//! The programs of Argo CD, and their arguments.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::NAMESPACE;
use crate::control_plane::ControlPlane;

/// The ports of the programs on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArgoCdPorts {
    pub(super) redis: u16,
    pub(super) repo_server: u16,
    pub(super) repo_server_metrics: u16,
    pub(super) controller_metrics: u16,
}

/// Returns the environment of both programs as `NAME=VALUE`: their own folders, a `PATH` that
/// starts with Kustomize and `tools`, and the control plane as the cluster of Argo CD.
pub(super) fn environment(
    folder: &Path,
    program: &Path,
    tools: &[&Path],
    control_plane: &ControlPlane,
) -> Result<Vec<String>> {
    let mut all = vec![
        "ARGOCD_FAKE_IN_CLUSTER=true".to_owned(),
        "ARGOCD_GPG_ENABLED=false".to_owned(),
        format!("KUBECONFIG={}", control_plane.kubeconfig().display()),
    ];
    for (name, own) in [
        ("ARGOCD_GNUPGHOME", "gnupg"),
        ("ARGOCD_GPG_DATA_PATH", "keys"),
        ("ARGOCD_TLS_DATA_PATH", "tls"),
        ("ARGOCD_SSH_DATA_PATH", "ssh"),
        ("ARGOCD_PLUGINSOCKFILEPATH", "plugins"),
        ("TMPDIR", "tmp"),
        ("HOME", "home"),
    ] {
        let own = folder.join(own);
        fs::create_dir_all(&own)?;
        all.push(format!("{name}={}", own.display()));
    }
    let mut path: Vec<PathBuf> = program.parent().map(Path::to_owned).into_iter().collect();
    path.extend(tools.iter().map(|folder| folder.to_path_buf()));
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let path = env::join_paths(path)?;
    all.push(format!("PATH={}", path.to_str().context("a PATH of text")?));
    Ok(all)
}

/// Returns the command of the redis-server of this machine, or else of the one in Argo CD's command
/// line.
pub(super) fn redis_command(program: &Path, ports: ArgoCdPorts) -> Vec<String> {
    let port = ports.redis.to_string();
    let installed = Command::new("redis-server").arg("--version").output();
    if installed.is_ok_and(|output| output.status.success()) {
        let words = ["redis-server", "--bind", "127.0.0.1", "--port", &port];
        let memory = ["--save", "", "--appendonly", "no"];
        return words
            .iter()
            .chain(&memory)
            .map(|w| (*w).to_owned())
            .collect();
    }
    vec![
        program.display().to_string(),
        "redis".to_owned(),
        format!("--address=127.0.0.1:{port}"),
    ]
}

pub(super) fn repo_server_command(program: &Path, ports: ArgoCdPorts) -> Vec<String> {
    vec![
        program.display().to_string(),
        "argocd-repo-server".to_owned(),
        "--address=127.0.0.1".to_owned(),
        format!("--port={}", ports.repo_server),
        "--metrics-address=127.0.0.1".to_owned(),
        format!("--metrics-port={}", ports.repo_server_metrics),
        format!("--redis=127.0.0.1:{}", ports.redis),
        "--disable-tls".to_owned(),
        "--client-ca-path=".to_owned(),
    ]
}

pub(super) fn controller_command(program: &Path, ports: ArgoCdPorts) -> Vec<String> {
    vec![
        program.display().to_string(),
        "argocd-application-controller".to_owned(),
        format!("--namespace={NAMESPACE}"),
        format!("--metrics-port={}", ports.controller_metrics),
        format!("--redis=127.0.0.1:{}", ports.redis),
        format!("--repo-server=127.0.0.1:{}", ports.repo_server),
        "--repo-server-plaintext".to_owned(),
        // Writes the health of each resource into the Application's status, because the tests read
        // it there.
        "--persist-resource-health".to_owned(),
        "--self-heal-timeout-seconds=2".to_owned(),
    ]
}
