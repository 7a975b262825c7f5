//! Faults of real nodes.

use std::{fs, io::ErrorKind};

use anyhow::{Context as _, Result};
use rustix::process::{Signal, kill_process};

use super::{RealNodes, processes::youngest_process};

/// While this file is in a node's folder, a killed kubelet is not restarted (node.sh).
const NO_KUBELET_FILE: &str = "no-kubelet";

/// File with the names of GPUs that the device plugin reports as unhealthy, one per line (node.sh).
const UNHEALTHY_GPUS_FILE: &str = "unhealthy-gpus";

impl RealNodes {
    /// Crashes a node, like a loss of power: its processes and containers end at once.
    ///
    /// # Errors
    ///
    /// When the node does not exist or has already ended.
    pub fn crash_node(&self, node: &str) -> Result<()> {
        self.processes()
            .get_mut(node)
            .with_context(|| format!("no node {node:?}"))?
            .signal(crate::process::ProcessSignal::Kill)
    }

    /// Kills only a node's kubelet. Its containers keep running without a kubelet until
    /// [`Self::start_kubelet`].
    ///
    /// # Errors
    ///
    /// When no kubelet runs on the node.
    pub fn stop_kubelet(&self, node: &str) -> Result<()> {
        let folder = self.node_folder(node);
        fs::write(folder.join(NO_KUBELET_FILE), "")?;
        let argument = format!("--config={}", folder.join("kubelet.json").display());
        let kubelet = youngest_process(|_, command| command.contains(&argument))
            .with_context(|| format!("no kubelet of {node:?} runs"))?;
        Ok(kill_process(kubelet, Signal::KILL)?)
    }

    /// Starts a kubelet again that was [stopped](Self::stop_kubelet).
    ///
    /// # Errors
    ///
    /// When the file that prevents the restart cannot be removed.
    pub fn start_kubelet(&self, node: &str) -> Result<()> {
        match fs::remove_file(self.node_folder(node).join(NO_KUBELET_FILE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Makes the device plugin of a node report these GPUs, such as `GPU-0`, as unhealthy, and all
    /// other GPUs as healthy.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn set_unhealthy_gpus(&self, node: &str, gpus: &[&str]) -> Result<()> {
        let file = self.node_folder(node).join(UNHEALTHY_GPUS_FILE);
        // The rename keeps the device plugin from reading a partial file.
        let partial = file.with_extension("partial");
        fs::write(&partial, gpus.join("\n"))?;
        Ok(fs::rename(partial, file)?)
    }
}
