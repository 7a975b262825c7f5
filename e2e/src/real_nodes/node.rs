//! One real node: the configuration of its containerd, CNI and kubelet, and its process.

use std::{fs, path::Path};

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    RealNodes,
    network::{BRIDGE_NAME, GATEWAY, POD_NETWORK},
};
use crate::{binaries::Executable, control_plane::ControlPlane, process::Process};

/// The port of the first node's kubelet.
const FIRST_KUBELET_PORT: usize = 10_250;

/// The specification of a node.
#[derive(Debug, Clone)]
pub struct RealNode {
    /// Its name.
    pub name: String,
    /// Number of simulated GPUs (`nvidia.com/gpu`).
    pub gpus: u32,
    /// Labels. A kubelet may not set labels of `kubernetes.io`.
    pub labels: Vec<(String, String)>,
}

impl RealNode {
    /// Creates a specification without labels.
    #[must_use]
    pub fn new(name: &str, gpus: u32) -> Self {
        Self {
            name: name.to_owned(),
            gpus,
            labels: Vec::new(),
        }
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.to_owned(), value.to_owned()));
        self
    }
}

impl RealNodes {
    /// Starts a node, which registers itself. This function does not wait for that.
    pub(super) fn spawn_node(
        &self,
        control_plane: &ControlPlane,
        node: &RealNode,
    ) -> Result<Process> {
        let folder = self.node_folder(&node.name);
        fs::create_dir_all(folder.join("net.d"))?;
        fs::create_dir_all(folder.join("static"))?;
        fs::write(
            folder.join("containerd.toml"),
            self.containerd_config(&folder),
        )?;
        let network = self.cni_config().to_string();
        fs::write(folder.join("net.d/pods.conflist"), network)?;
        let kubelet = self.kubelet_config(&node.name)?.to_string();
        fs::write(folder.join("kubelet.json"), kubelet)?;
        let user = format!("system:node:{}", node.name);
        let kubeconfig =
            control_plane.kubeconfig_for_user_at(&self.api_server_url, &user, &["system:nodes"])?;

        let labels: Vec<String> = node
            .labels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane/nodes/node.sh");
        let arguments = [
            self.network.nsenter_argument(),
            "unshare".into(),
            "--mount".into(),
            "--pid".into(),
            "--fork".into(),
            "--kill-child".into(),
            "--mount-proc".into(),
            "sh".into(),
            script.display().to_string(),
            folder.display().to_string(),
            self.image.folder.display().to_string(),
            self.binaries
                .path(Executable::Kubelet)
                .display()
                .to_string(),
            self.binaries
                .path(Executable::SimulatedGpus)
                .display()
                .to_string(),
            node.gpus.to_string(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={}", node.name),
            format!("--node-ip={}", self.network.node_address),
            format!("--node-labels={}", labels.join(",")),
        ];
        control_plane.spawn(&node.name, Path::new("nsenter"), &arguments)
    }

    /// containerd 1 and 2 both read version 2 of the format.
    fn containerd_config(&self, node: &Path) -> String {
        let cri = "plugins.\"io.containerd.grpc.v1.cri\"";
        format!(
            "version = 2\n\
            [{cri}]\n\
            sandbox_image = {image:?}\n\
            # Without CAP_SYS_RESOURCE no sandbox could start otherwise.\n\
            restrict_oom_score_adj = true\n\
            disable_apparmor = true\n\
            [{cri}.cni]\n\
            bin_dir = {plugins:?}\n\
            conf_dir = {configuration:?}\n\
            [{cri}.containerd.runtimes.runc]\n\
            runtime_type = \"io.containerd.runc.v2\"\n\
            [{cri}.containerd.runtimes.runc.options]\n\
            SystemdCgroup = false\n",
            image = super::IMAGE_NAME,
            plugins = self.image.root_folder().join("usr/lib/cni"),
            configuration = node.join("net.d"),
        )
    }

    /// The pods of all nodes are on one bridge, so they need no routes.
    fn cni_config(&self) -> Value {
        json!({
            "cniVersion": "1.0.0",
            "name": BRIDGE_NAME,
            "plugins": [{
                "type": "bridge",
                "bridge": BRIDGE_NAME,
                "ipam": {
                    "type": "host-local",
                    "dataDir": self.node_folder("addresses"),
                    "ranges": [[{"subnet": POD_NETWORK, "rangeStart": "10.88.1.0", "gateway": GATEWAY}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }],
        })
    }

    fn kubelet_config(&self, node: &str) -> Result<Value> {
        let folder = self.node_folder(node);
        Ok(json!({
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "address": self.network.node_address,
            // All nodes share one network.
            "port": FIRST_KUBELET_PORT + self.processes().len(),
            "healthzPort": 0,
            // Only this machine can reach the kubelet.
            "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "clusterDNS": [GATEWAY],
            "clusterDomain": "cluster.local",
            "resolvConf": "",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.cgroups.create_node_cgroup(node)?,
            "enforceNodeAllocatable": ["pods"],
            "failCgroupV1": false,
            "failSwapOn": false,
            "makeIPTablesUtilChains": false,
            // A pod may use more CPU than it requests, because the machine has fewer cores than its
            // nodes report.
            "cpuCFSQuota": false,
            "serializeImagePulls": false,
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "nodefs.inodesFree": "1%",
                "imagefs.available": "1%",
            },
            "staticPodPath": folder.join("static"),
            "fileCheckFrequency": "1s",
            // A changed Secret reaches the pods after seconds instead of a minute.
            "syncFrequency": "5s",
            "volumePluginDir": folder.join("volume-plugins"),
            "nodeStatusUpdateFrequency": "2s",
            "nodeLeaseDurationSeconds": 8,
        }))
    }
}
