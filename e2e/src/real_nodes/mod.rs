//! Real nodes: kubelet, containerd, runc and CNI as plain processes, several nodes on one machine.
//! A real device plugin simulates their GPUs.
//!
//! The nodes install no package on the machine. Mounts, interfaces and cgroups are removed at the
//! end, even if this process is killed.

mod cgroups;
mod dns;
mod faults;
mod image;
mod network;
mod node;
mod operator_pods;
mod pod_connections;
mod processes;
mod requirements;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;

pub use image::{IMAGE_NAME, JAX_PATH, RAY_PATH};
pub use node::RealNode;
pub use operator_pods::start_kube_scheduler;
pub use processes::kill_rank;
pub use requirements::unavailable_reason;

use crate::{
    binaries::{Binaries, Executable},
    control_plane::{ControlPlane, ControlPlaneOptions, Kubelets},
    process::Process,
    wait::eventually,
};
use cgroups::Cgroups;
use image::NodeImage;
use network::NodeNetwork;

/// Longest time until a node is Ready and has its GPUs.
const READY_TIMEOUT: Duration = Duration::from_secs(180);

/// Real nodes on a control plane, with DNS.
#[derive(Debug)]
pub struct RealNodes {
    // The fields are dropped in this order.
    nodes: Mutex<BTreeMap<String, Process>>,
    dns: Option<Process>,
    network: NodeNetwork,
    cgroups: Cgroups,
    image: NodeImage,
    binaries: Binaries,
    folder: PathBuf,
    /// The address of the API server for the nodes.
    api_server_url: String,
}

/// Adds the options that a control plane needs for real nodes.
#[must_use]
pub fn with_real_nodes(options: ControlPlaneOptions) -> ControlPlaneOptions {
    let mut api_server_flags = options.api_server_flags;
    api_server_flags.push("--kubelet-preferred-address-types=InternalIP".to_owned());
    ControlPlaneOptions {
        kubelets: Kubelets::Real,
        api_server_flags,
        // The kubelets renew their Leases of 8 s every 2 s.
        node_monitor_grace_period: Duration::from_secs(10),
        ..options
    }
}

impl RealNodes {
    /// Starts nodes and waits until all are Ready and have their GPUs. This takes about 5 s, and
    /// minutes the first time on a machine.
    ///
    /// # Errors
    ///
    /// When the machine cannot run nodes ([`unavailable_reason`]), packages cannot be downloaded,
    /// or a node does not become Ready (with the last lines of its log).
    pub async fn start(control_plane: &ControlPlane, nodes: &[RealNode]) -> Result<Self> {
        let (binaries, image) = tokio::task::spawn_blocking(|| {
            let binaries = Binaries::find_or_build(&Executable::REAL_NODES)?;
            anyhow::Ok((binaries, NodeImage::find_or_build()?))
        })
        .await??;
        let folder = control_plane.folder().join("nodes");
        std::fs::create_dir_all(&folder)?;
        let network = NodeNetwork::create(control_plane)?;
        let mut this = Self {
            nodes: Mutex::default(),
            dns: None,
            api_server_url: network.relay_to_api_server(control_plane)?,
            network,
            cgroups: Cgroups::create()?,
            image,
            binaries,
            folder,
        };
        this.dns = Some(this.spawn_dns(control_plane)?);
        for node in nodes {
            let process = this.spawn_node(control_plane, node)?;
            this.processes().insert(node.name.clone(), process);
        }
        for node in nodes {
            this.wait_until_ready(control_plane, node).await?;
        }
        Ok(this)
    }

    /// Returns true if the image has PyTorch.
    #[must_use]
    pub fn has_pytorch(&self) -> bool {
        self.image.has_pytorch()
    }

    /// Returns true if the image has Ray at [`RAY_PATH`].
    #[must_use]
    pub fn has_ray(&self) -> bool {
        self.image.has_ray()
    }

    /// Returns true if the image has JAX at [`JAX_PATH`].
    #[must_use]
    pub fn has_jax(&self) -> bool {
        self.image.has_jax()
    }

    /// Returns the folder of a node's static pods.
    #[must_use]
    pub fn static_pods_folder(&self, node: &str) -> PathBuf {
        self.node_folder(node).join("static")
    }

    /// Returns true if a node has started a pod: its log folder has the pod's logs.
    #[must_use]
    pub fn has_pod(&self, node: &str, namespace: &str, pod: &str) -> bool {
        let begin = format!("{namespace}_{pod}");
        std::fs::read_dir(self.node_folder(node).join("log/pods"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with(&begin))
    }

    /// Returns the folder of a node, or a folder that all nodes share.
    fn node_folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<String, Process>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_until_ready(&self, control_plane: &ControlPlane, node: &RealNode) -> Result<()> {
        let api: Api<Node> = Api::all(control_plane.client());
        let is_ready = eventually(READY_TIMEOUT, || async {
            let ended = match self.processes().get_mut(&node.name) {
                Some(process) => process.try_wait()?,
                None => None,
            };
            ensure!(ended.is_none(), "it ended: {ended:?}");
            let status = api.get(&node.name).await?.status.unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            let ready = conditions.iter().find(|c| c.type_ == "Ready");
            ensure!(ready.is_some_and(|c| c.status == "True"), "{ready:?}");
            let gpus = status.allocatable.unwrap_or_default();
            let gpus = gpus.get("nvidia.com/gpu").map_or("0", |q| q.0.as_str());
            ensure!(gpus == node.gpus.to_string(), "{gpus} GPUs");
            Ok(())
        });
        is_ready.await.with_context(|| {
            let log = self.node_folder(&node.name).join("kubelet.log");
            let log = std::fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(20)..].join("\n");
            let process = self.processes().get(&node.name).map(Process::log_tail);
            format!(
                "node {:?} did not start; {}\n{last}",
                node.name,
                process.unwrap_or_default()
            )
        })
    }
}
