//! Faults of a node.

use std::{fs, io::ErrorKind};

use anyhow::{Context as _, Result};
use rustix::process::{Signal, kill_process};

use super::{RealNodes, processes::youngest_process};

/// While a node's folder has it, a kubelet that was killed does not come again (node.sh).
const NO_KUBELET_FILE: &str = "no-kubelet";

/// Names of GPUs that the device plugin says are not healthy, one a line (node.sh).
const UNHEALTHY_GPUS_FILE: &str = "unhealthy-gpus";

impl RealNodes {
    /// A node loses its power: it and its containers are gone at once.
    ///
    /// # Errors
    ///
    /// When there is no such node, or it is dead.
    pub fn crash_node(&self, node: &str) -> Result<()> {
        self.processes()
            .get_mut(node)
            .with_context(|| format!("no node {node:?}"))?
            .signal(crate::process::ProcessSignal::Kill)
    }

    /// Kills only a node's kubelet. Its containers go on, and no kubelet manages them before
    /// [`Self::start_kubelet`].
    ///
    /// # Errors
    ///
    /// When no kubelet runs there.
    pub fn stop_kubelet(&self, node: &str) -> Result<()> {
        let folder = self.node_folder(node);
        fs::write(folder.join(NO_KUBELET_FILE), "")?;
        let told = format!("--config={}", folder.join("kubelet.json").display());
        let kubelet = youngest_process(|_, command| command.contains(&told))
            .with_context(|| format!("no kubelet of {node:?} runs"))?;
        Ok(kill_process(kubelet, Signal::KILL)?)
    }

    /// A kubelet that was [stopped](Self::stop_kubelet) comes again, if there is one.
    ///
    /// # Errors
    ///
    /// When the file that keeps it away cannot be removed.
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
    /// When the node has no folder.
    pub fn set_unhealthy_gpus(&self, node: &str, gpus: &[&str]) -> Result<()> {
        let file = self.node_folder(node).join(UNHEALTHY_GPUS_FILE);
        // The rename keeps the device plugin from reading a partial file.
        let partial = file.with_extension("partial");
        fs::write(&partial, gpus.join("\n"))?;
        Ok(fs::rename(partial, file)?)
    }
}
