//! DNS for the pods of real nodes.

use std::{fs, path::Path};

use anyhow::Result;

use super::{RealNodes, network::GATEWAY};
use crate::{binaries::Executable, control_plane::ControlPlane, process::Process};

impl RealNodes {
    /// Starts CoreDNS with the usual settings of clusters: a missing name is cached for 30 s.
    pub(super) fn spawn_dns(&self, control_plane: &ControlPlane) -> Result<Process> {
        let groups = ["system:masters"];
        let kubeconfig =
            control_plane.kubeconfig_for_user_at(&self.api_server_url, "coredns", &groups)?;
        let corefile = self.node_folder("Corefile");
        fs::write(
            &corefile,
            format!(
                ". {{\n bind {GATEWAY}\n errors\n cache 30\n \
                 kubernetes cluster.local {{\n  kubeconfig {}\n }}\n}}\n",
                kubeconfig.display()
            ),
        )?;
        let arguments = [
            self.network.nsenter_argument(),
            self.binaries
                .path(Executable::CoreDns)
                .display()
                .to_string(),
            "-conf".into(),
            corefile.display().to_string(),
        ];
        control_plane.spawn("coredns", Path::new("nsenter"), &arguments)
    }
}
