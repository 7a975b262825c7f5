//! Karpenter on a test control plane. Its kwok provider creates Node objects, and the kwok of the
//! control plane acts as their kubelets.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
//! use trellis_e2e::karpenter::{self, Karpenter, NodePoolTemplate};
//!
//! let mut options = ControlPlaneOptions::default();
//! options.manifests.extend(karpenter::crds()?);
//! let control_plane = ControlPlane::start(options).await?;
//! let karpenter = Karpenter::start(&control_plane, &[]).await?;
//! let pool = NodePoolTemplate::new("h100").limit("nvidia.com/gpu", "32").create(&control_plane).await?;
//! // A test creates pods for the pool here.
//! let nodes = pool.wait_for_nodes(4).await?;
//! assert_eq!(pool.claims().len(), nodes.names().len());
//! # drop(karpenter);
//! # Ok(())
//! # }
//! ```

mod claims;
mod node_pool;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::{Client, Config};

use crate::binaries::{Binaries, Executable, download_module};
use crate::control_plane::{ControlPlane, free_port};
use crate::process::{Process, ProcessSignal};
use crate::wait::eventually;

pub use claims::NodeClaimRecord;
pub use node_pool::{GPU_INSTANCE, NodePoolTemplate, TestNodePool};

/// The Go module with the CRDs and the program. `control-plane/karpenter` names its version.
const MODULE: &str = "sigs.k8s.io/karpenter";
/// Longest time until Karpenter is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time until an instance type is bought and its node is ready.
const NODE_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns the CRDs of Karpenter and its kwok provider, for
/// [`ControlPlaneOptions::manifests`](crate::control_plane::ControlPlaneOptions::manifests).
///
/// # Errors
///
/// When Go is missing, or the module cannot be downloaded.
pub fn crds() -> Result<Vec<String>> {
    let module = download_module("karpenter", MODULE)?;
    let mut crds = Vec::new();
    for folder in ["pkg/apis/crds", "kwok/apis/crds"] {
        let folder = module.join(folder);
        let files = fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
        for file in files {
            crds.push(fs::read_to_string(file?.path())?);
        }
    }
    Ok(crds)
}

/// A running Karpenter with all rights, without leader election. It ends with the control plane, or
/// when this value is dropped.
#[derive(Debug)]
pub struct Karpenter {
    process: Process,
}

impl Karpenter {
    /// Starts Karpenter and waits until it is ready. The control plane must have its [`crds`].
    /// `arguments` are further flags, such as `--feature-gates=CapacityBuffer=true`. The first call
    /// on a machine builds the program.
    ///
    /// # Errors
    ///
    /// When it cannot be built, or does not become ready; the error has the end of its log.
    pub async fn start(control_plane: &ControlPlane, arguments: &[&str]) -> Result<Self> {
        let program = Executable::Karpenter;
        let built = tokio::task::spawn_blocking(move || Binaries::find_or_build(&[program]));
        let binaries = built.await??;
        let health_port = free_port()?;
        let mut command = vec![
            format!("KUBECONFIG={}", control_plane.kubeconfig().display()),
            binaries.path(program).display().to_string(),
            "--disable-leader-election=true".to_owned(),
            format!("--metrics-port={}", free_port()?),
            format!("--health-probe-port={health_port}"),
            format!("--instance-types-file-path={}", instance_types().display()),
        ];
        command.extend(arguments.iter().map(ToString::to_string));
        let process = control_plane.spawn(program.name(), Path::new("env"), &command)?;
        let mut karpenter = Self { process };
        if let Err(error) = karpenter.wait_until_ready(health_port).await {
            return Err(error.context(karpenter.log_tail()));
        }
        Ok(karpenter)
    }

    async fn wait_until_ready(&mut self, health_port: u16) -> Result<()> {
        let address = format!("http://127.0.0.1:{health_port}");
        let client = Client::try_from(Config::new(address.parse()?))?;
        let process = &mut self.process;
        eventually(READY_TIMEOUT, || {
            let exit = process.try_wait();
            let client = &client;
            async move {
                if let Some(status) = exit? {
                    bail!("Karpenter ended with {status}");
                }
                let request = http::Request::get("/readyz").body(Vec::new())?;
                client.request_text(request).await?;
                Ok(())
            }
        })
        .await
    }

    /// Freezes, thaws or ends Karpenter.
    ///
    /// # Errors
    ///
    /// When it has ended before.
    pub fn signal(&mut self, signal: ProcessSignal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Returns the last lines of the log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}

/// The file with the instance types that Karpenter can buy.
fn instance_types() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane/karpenter/instance-types.json")
}
