//! Options of a control plane.

use std::time::Duration;

/// The kubelets that keep nodes alive and run their pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kubelets {
    /// kwok: nodes with Lease heartbeats, pods that start, run, end and are removed.
    #[default]
    Kwok,
    /// Kubelets, which [`RealNodes`](crate::real_nodes::RealNodes) bring: no simulated node lives.
    Real,
    /// No kubelets: nodes stay Ready without heartbeats, and pods stay Pending. For benchmarks of
    /// the scheduler alone.
    None,
}

/// How to start a [`ControlPlane`](super::ControlPlane). The defaults suit a test.
#[derive(Debug, Clone)]
pub struct ControlPlaneOptions {
    /// The kubelets of its nodes.
    pub kubelets: Kubelets,
    /// YAML that is applied before the controller manager starts. CRDs belong here: the garbage
    /// collector looks for new kinds only every 30 s, but knows those that are there first.
    pub manifests: Vec<String>,
    /// The API server asks for connections to pods, webhooks and API groups among them, which
    /// [`RealNodes::serve_pod_connections`](crate::real_nodes::RealNodes::serve_pod_connections)
    /// gives it.
    pub tunnels_to_pods: bool,
    /// More flags for kube-apiserver, behind ours, so that they win.
    pub api_server_flags: Vec<String>,
    /// More flags for kube-controller-manager, behind ours.
    pub controller_manager_flags: Vec<String>,
    /// The lines of the log that each simulated pod has. Empty: simulated pods have no logs, and
    /// the API server cannot reach their kubelets.
    pub pod_log: Vec<String>,
    /// How long a node's Lease lasts; it is renewed four times in that time.
    pub node_lease: Duration,
    /// How long a node may be silent before the controller manager says `Ready=Unknown`.
    pub node_monitor_grace_period: Duration,
    /// Keep the folder with logs and data after the end. `TRELLIS_KEEP=1` does the same.
    pub keep_folder: bool,
}

impl Default for ControlPlaneOptions {
    fn default() -> Self {
        Self {
            kubelets: Kubelets::Kwok,
            manifests: Vec::new(),
            tunnels_to_pods: false,
            api_server_flags: Vec::new(),
            controller_manager_flags: Vec::new(),
            pod_log: Vec::new(),
            node_lease: Duration::from_secs(40),
            node_monitor_grace_period: Duration::from_secs(50),
            keep_folder: std::env::var_os("TRELLIS_KEEP").is_some(),
        }
    }
}
