//! Runs the operator itself in pods: its image on the nodes, the API server at the address where
//! pods expect it, and a scheduler for pods that belong to no gang.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{RealNodes, processes::youngest_process};
use crate::{
    binaries::{Binaries, Executable},
    control_plane::{ControlPlane, SERVICE_ADDRESS},
    process::Process,
};

impl RealNodes {
    /// Imports an OCI archive on a node, under the names in the archive.
    ///
    /// # Errors
    ///
    /// When the node has ended, or containerd refuses the archive.
    pub fn import_image(&self, node: &str, archive: &Path) -> Result<()> {
        let configuration = self.node_folder(node).join("containerd.toml");
        let configuration = format!("--config {}", configuration.display());
        let containerd = youngest_process(|_, command| command.contains(&configuration))
            .with_context(|| format!("no containerd of {node:?} runs"))?;
        let output = Command::new("nsenter")
            .arg(format!("--target={containerd}"))
            .arg("--mount")
            .arg(self.image.root_folder().join("usr/bin/ctr"))
            .args(["--namespace", "k8s.io", "images", "import"])
            .arg(archive)
            .output()
            .context("start nsenter")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "ctr images import: {stderr}");
        Ok(())
    }

    /// Lets pods reach the API server at the address of the Service `kubernetes`. No other Service
    /// address works here, because no kube-proxy runs. It ends with the returned process.
    ///
    /// # Errors
    ///
    /// When the address does not exist.
    pub fn expose_api_service(&self, control_plane: &ControlPlane) -> Result<Process> {
        let enter = self.network.nsenter_argument();
        let address = format!("{SERVICE_ADDRESS}/32");
        let output = Command::new("nsenter")
            .args([&enter, "ip", "addr", "add", &address, "dev", "lo"])
            .output()
            .context("start nsenter")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "ip addr add {address}: {stderr}");
        let (_, server) = self.api_server_url.split_once("//").context("no address")?;
        let (host, port) = server.rsplit_once(':').context("no port")?;
        let busybox = self.image.root_folder().join("usr/bin/busybox");
        let busybox = busybox.display().to_string();
        let relay = ["nc", "-ll", "-p", "443", "-e", &busybox, "nc", host, port];
        let mut arguments = vec![enter, busybox.clone()];
        arguments.extend(relay.map(str::to_owned));
        control_plane.spawn("api-service", Path::new("nsenter"), &arguments)
    }
}

/// Starts kube-scheduler. It ends with the returned process.
///
/// # Errors
///
/// When kube-scheduler cannot be built or started.
pub async fn start_kube_scheduler(control_plane: &ControlPlane) -> Result<Process> {
    let built =
        tokio::task::spawn_blocking(|| Binaries::find_or_build(&[Executable::KubeScheduler]));
    let binaries = built.await??;
    let kubeconfig = control_plane.kubeconfig_for_user("system:kube-scheduler", &[])?;
    let arguments = [
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    let program = binaries.path(Executable::KubeScheduler);
    control_plane.spawn("kube-scheduler", program, &arguments)
}
