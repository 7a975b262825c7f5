//! Options of a control plane.

use std::time::Duration;

/// The kind of kubelets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kubelets {
    /// kwok, which renews the Leases of nodes, and starts, ends and deletes pods.
    #[default]
    Kwok,
    /// The kubelets of [`RealNodes`](crate::real_nodes::RealNodes). Simulated nodes do not work.
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
    /// collector checks for new kinds only every 30 s, but knows the kinds that exist at its start.
    pub manifests: Vec<String>,
    /// True if the API server requests connections to pods, also for webhooks and API groups, from
    /// [`RealNodes::serve_pod_connections`](crate::real_nodes::RealNodes::serve_pod_connections).
    pub tunnels_to_pods: bool,
    /// Further flags of kube-apiserver. They override the default flags.
    pub api_server_flags: Vec<String>,
    /// Further flags of kube-controller-manager. They override the default flags.
    pub controller_manager_flags: Vec<String>,
    /// The log lines of each simulated pod. Empty: simulated pods have no logs, and the API server
    /// cannot reach their kubelets.
    pub pod_log: Vec<String>,
    /// Duration of a node's Lease, which is renewed four times in that time.
    pub node_lease: Duration,
    /// Time without heartbeats after which the controller manager sets `Ready=Unknown`.
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
