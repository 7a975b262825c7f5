//! The processes of a control plane, and their flags.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};

use super::{
    audit,
    credentials::{Credentials, TokenUser},
    egress, front_proxy, kwok_configuration,
    options::{ControlPlaneOptions, Kubelets},
    ports::ComponentPorts,
};
use crate::binaries::{Executable, KubernetesVersion};

/// One process of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kwok, which simulates the kubelets.
    Kwok,
}

/// kwok manages nodes with this label. Removing the label from a node stops its kubelet.
pub(crate) const KWOK_LABEL: (&str, &str) = ("type", "kwok");
/// The annotation of simulated nodes in kwok's documentation, which `trellis logs` checks.
pub(crate) const KWOK_ANNOTATION: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

impl Component {
    /// Returns the name of the program and of its log.
    pub fn name(self) -> &'static str {
        self.program().name()
    }

    pub(super) fn program(self) -> Executable {
        match self {
            Self::Etcd => Executable::Etcd,
            Self::ApiServer => Executable::KubeApiserver,
            Self::ControllerManager => Executable::KubeControllerManager,
            Self::Kwok => Executable::Kwok,
        }
    }

    /// Returns the server and the path of the readiness check.
    pub(super) fn health_url(self, ports: ComponentPorts) -> (String, &'static str) {
        let (scheme, port, path) = match self {
            Self::Etcd => ("http", ports.etcd, "/health"),
            Self::ApiServer => ("https", ports.api_server, "/readyz"),
            Self::ControllerManager => ("https", ports.controller_manager, "/healthz"),
            Self::Kwok => ("http", ports.kwok, "/healthz"),
        };
        (format!("{scheme}://127.0.0.1:{port}"), path)
    }

    pub(super) fn flags(
        self,
        folder: &Path,
        ports: ComponentPorts,
        credentials: &Credentials,
        options: &ControlPlaneOptions,
    ) -> Result<Vec<String>> {
        Ok(match self {
            Self::Etcd => etcd_flags(folder, ports),
            Self::ApiServer => {
                let mut all = api_server_flags(ports, credentials);
                all.extend(mutating_policy_flags(KubernetesVersion::chosen()?));
                all.extend(audit::api_server_flags(folder, ports.api_server)?);
                if options.tunnels_to_pods {
                    all.extend(egress::api_server_flags(folder)?);
                }
                if kwok_configuration::has_pod_logs(options) {
                    all.push(kwok_configuration::KUBELET_ADDRESS.into());
                }
                // The last flag of a name counts.
                all.extend(options.api_server_flags.iter().cloned());
                all
            }
            Self::ControllerManager => controller_manager_flags(ports, credentials, options)?,
            Self::Kwok => kwok_flags(folder, ports, credentials, options)?,
        })
    }
}

fn format_flags<const N: usize>(flags: [(&str, String); N]) -> Vec<String> {
    flags
        .into_iter()
        .map(|(name, value)| format!("--{name}={value}"))
        .collect()
}

fn etcd_flags(folder: &Path, ports: ComponentPorts) -> Vec<String> {
    let url = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    format_flags([
        ("name", "trellis".into()),
        ("data-dir", folder.join("etcd").display().to_string()),
        ("listen-client-urls", url.clone()),
        ("advertise-client-urls", url),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("initial-cluster", format!("trellis={peer}")),
        // The data of a test need not survive a crash of the machine.
        ("unsafe-no-fsync", "true".into()),
        ("quota-backend-bytes", (4_u64 << 30).to_string()),
        ("log-level", "warn".into()),
    ])
}

fn api_server_flags(ports: ComponentPorts, credentials: &Credentials) -> Vec<String> {
    let mut all = format_flags([
        ("etcd-servers", format!("http://127.0.0.1:{}", ports.etcd)),
        ("bind-address", "127.0.0.1".into()),
        ("secure-port", ports.api_server.to_string()),
        ("advertise-address", "127.0.0.1".into()),
        // The API server refuses a loopback address as an endpoint of the Service `kubernetes`.
        ("endpoint-reconciler-type", "none".into()),
        ("tls-cert-file", credentials.file_path("server.crt")),
        ("tls-private-key-file", credentials.file_path("server.key")),
        ("token-auth-file", credentials.file_path("tokens.csv")),
        ("authorization-mode", "Node,RBAC".into()),
        (
            "service-account-issuer",
            "https://kubernetes.default.svc.cluster.local".into(),
        ),
        (
            "service-account-key-file",
            credentials.file_path("service-accounts.pub"),
        ),
        (
            "service-account-signing-key-file",
            credentials.file_path("service-accounts.key"),
        ),
        ("service-cluster-ip-range", "10.96.0.0/16".into()),
        // As on most clusters, policies decide which containers may be privileged.
        ("allow-privileged", "true".into()),
    ]);
    all.extend(front_proxy::api_server_flags(|name| {
        credentials.file_path(name)
    }));
    all
}

/// Enables MutatingAdmissionPolicy where it is not in `v1` yet, for the policies of tests
/// ([`PodPolicy`](crate::admission::PodPolicy)). Trellis uses only `v1`, so it does without, as on
/// a cluster with default settings.
fn mutating_policy_flags(version: KubernetesVersion) -> Vec<String> {
    if version.has_mutating_policies() {
        return Vec::new();
    }
    let api = version.mutating_policy_api();
    format_flags([
        ("feature-gates", "MutatingAdmissionPolicy=true".into()),
        (
            "runtime-config",
            format!("admissionregistration.k8s.io/{api}=true"),
        ),
    ])
}

fn controller_manager_flags(
    ports: ComponentPorts,
    credentials: &Credentials,
    options: &ControlPlaneOptions,
) -> Result<Vec<String>> {
    let kubeconfig = write_kubeconfig(ports, credentials, TokenUser::ControllerManager)?;
    let silence = match options.kubelets {
        Kubelets::Kwok | Kubelets::Real => options.node_monitor_grace_period,
        // No kubelet sends heartbeats, so the controller manager must not mark nodes as NotReady.
        Kubelets::None => Duration::from_secs(1_000 * 3600),
    };
    let mut all = format_flags([
        ("kubeconfig", kubeconfig),
        ("bind-address", "127.0.0.1".into()),
        ("secure-port", ports.controller_manager.to_string()),
        ("tls-cert-file", credentials.file_path("server.crt")),
        ("tls-private-key-file", credentials.file_path("server.key")),
        ("leader-elect", "false".into()),
        ("use-service-account-credentials", "true".into()),
        (
            "service-account-private-key-file",
            credentials.file_path("service-accounts.key"),
        ),
        ("root-ca-file", credentials.file_path("ca.crt")),
        ("controllers", "*,-node-ipam-controller".into()),
        (
            "node-monitor-grace-period",
            format!("{}s", silence.as_secs()),
        ),
        // The default limit of 20 requests per second would slow the tests down.
        ("kube-api-qps", "1000".into()),
        ("kube-api-burst", "2000".into()),
    ]);
    all.extend(options.controller_manager_flags.iter().cloned());
    Ok(all)
}

fn kwok_flags(
    folder: &Path,
    ports: ComponentPorts,
    credentials: &Credentials,
    options: &ControlPlaneOptions,
) -> Result<Vec<String>> {
    let config = kwok_configuration::write_configuration(folder, options)?;
    let (label, value) = KWOK_LABEL;
    Ok(format_flags([
        (
            "kubeconfig",
            write_kubeconfig(ports, credentials, TokenUser::Kwok)?,
        ),
        ("config", config.display().to_string()),
        ("manage-all-nodes", "false".into()),
        (
            "manage-nodes-with-label-selector",
            format!("{label}={value}"),
        ),
        (
            "node-lease-duration-seconds",
            options.node_lease.as_secs().to_string(),
        ),
        ("cidr", "10.244.0.0/16".into()),
        ("server-address", format!("127.0.0.1:{}", ports.kwok)),
        // Otherwise kwok logs a line for each write, which is too much for 1,600 pods.
        ("v", "WARN".into()),
    ]))
}

fn write_kubeconfig(
    ports: ComponentPorts,
    credentials: &Credentials,
    identity: TokenUser,
) -> Result<String> {
    let server = format!("https://127.0.0.1:{}", ports.api_server);
    let user = serde_json::json!({"token": credentials.token(identity)});
    let path = credentials
        .kubeconfig_writer()
        .write(identity.name(), &server, &user)
        .with_context(|| format!("write the kubeconfig of {}", identity.name()))?;
    Ok(path.display().to_string())
}
