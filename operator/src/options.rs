//! The options of the operator.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use trellis_compiler::DnsPeer;
use trellis_server::{endpoint, snapshot, telemetry, webhook};

use crate::unhealthy_options::UnhealthyOptions;

/// The Trellis operator: places gangs of GPU pods all together or not at all.
#[derive(clap::Parser, Clone, Debug)]
#[command(name = "trellis-operator", version)]
pub struct OperatorOptions {
    /// Namespace of the lease.
    #[arg(long, env = "TRELLIS_NAMESPACE", default_value = "trellis-system")]
    pub namespace: String,
    /// Name of the pod that runs this operator, in the namespace of the lease.
    /// With --visibility, the operator labels this pod trellis.dev/role=leader while it leads.
    /// Without this option, the operator labels no pod.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod: Option<String>,
    /// Duration of the lease in seconds.
    /// If this operator stops answering, another takes over after this time and at most 15 s more.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(2..=120))]
    pub lease_seconds: u64,
    /// The cluster's DNS domain.
    #[arg(long, default_value = "cluster.local")]
    pub cluster_domain: String,
    /// The cluster's DNS servers, which every pod may query.
    /// Either NAMESPACE/LABEL=VALUE,... to select their pods, or a network such as 169.254.20.10/32
    /// (NodeLocal DNSCache). Append @PORT if the port is not 53. May be given several times.
    /// Default: kube-system/k8s-app=kube-dns.
    #[arg(long, value_name = "SERVERS")]
    pub dns: Vec<DnsPeer>,
    /// Format of the log lines.
    #[arg(long, value_enum, default_value = "human")]
    pub log: telemetry::LogFormat,
    /// Options of the read-only endpoint.
    #[command(flatten)]
    pub endpoint: endpoint::EndpointOptions,
    /// Address and port of `/livez` and `/readyz` (HTTP, without authentication).
    /// Without this option, the operator does not serve them.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub health: Option<SocketAddr>,
    /// Options of the admission webhook.
    #[command(flatten)]
    pub webhook: webhook::WebhookOptions,
    /// Folder for snapshots.
    /// On SIGUSR1 the operator writes the whole state of the scheduler into this folder, for
    /// `trellis replay`.
    #[arg(long, value_name = "FOLDER")]
    pub snapshots: Option<PathBuf>,
    /// Trust the annotation `trellis.dev/requested-by` of a job as its submitter.
    /// The operator then does not check which admission policy writes the annotation. Use it in
    /// clusters in which something other than the chart's admission policies stamps the annotation
    /// and refuses a forged one.
    #[arg(long)]
    pub trust_requested_by: bool,
    /// Namespaces in which the operator checks that the Secrets of a job's pods exist.
    /// The check happens before the job is placed. It needs a Role in each namespace that grants
    /// the right to get Secrets.
    #[arg(long, value_name = "NAMESPACES", value_delimiter = ',')]
    pub look_for_secrets_in: Vec<String>,
    /// Namespace of placeholder pods, by which the operator asks autoscalers for nodes.
    /// Without this option, the operator asks for none.
    #[arg(long, value_name = "NAMESPACE")]
    pub placeholder_namespace: Option<String>,
    /// Rules for nodes that get no new pods.
    #[command(flatten)]
    pub unhealthy: UnhealthyOptions,
}

impl OperatorOptions {
    /// Checks that the given folder and addresses can be used.
    ///
    /// # Errors
    /// If a folder cannot be written to, or an address is taken or not of this machine.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if let Some(folder) = &self.snapshots {
            snapshot::check_writable(folder).with_context(|| {
            format!(
                "--snapshots: nothing can be written into {folder:?}: name a folder that is there and may be written to"
            )
        })?;
        }
        let addresses = [
            ("--listen", self.endpoint.listen),
            ("--webhook", self.webhook.listen),
            ("--health", self.health),
        ];
        for (option, address) in addresses {
            let Some(address) = address else { continue };
            std::net::TcpListener::bind(address).with_context(|| {
            format!("{option}: nothing can listen on {address}: name an address of this machine and a port that is free")
        })?;
        }
        Ok(())
    }
}
