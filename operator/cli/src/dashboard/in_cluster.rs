//! The page in a cluster, behind a proxy. The server has no credential of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kube::Config;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use trellis_dashboard::{Dashboard, ForwardedCredentials, PublicUrl};

use crate::output::{print, warn};

/// Timeout for an answer of the scheduler, which answers from memory.
const SCHEDULER_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for an answer of the API server.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn serve(url: PublicUrl, address: SocketAddr, authority: &Path) -> anyhow::Result<()> {
    let cluster = read_cluster(authority)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        print(&format!("The page listens on {address} for {url}\n"))?;
        let credentials = ForwardedCredentials::new(cluster, SCHEDULER_TIMEOUT);
        let dashboard = Dashboard::behind_proxy(credentials, url, |text: &str| {
            warn(&format!("warning: {text}"));
        });
        tokio::select! {
            result = dashboard.serve(listener) => result,
            result = wait_for_signal() => result,
        }
    })
}

/// Returns the API server of this cluster, without a credential.
fn read_cluster(authority: &Path) -> anyhow::Result<Config> {
    let variable = |name: &str| {
        std::env::var(name).map_err(|_| {
            anyhow!("{name} is not set: --in-cluster works in a pod only; without it, the page uses your kubeconfig")
        })
    };
    let host = variable("KUBERNETES_SERVICE_HOST")?;
    let port = variable("KUBERNETES_SERVICE_PORT")?;
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host,
    };
    let mut config = Config::new(format!("https://{host}:{port}").parse()?);
    std::fs::metadata(authority).with_context(|| {
        format!(
            "cannot read the certificate authority of the API server, {authority:?} (--certificate-authority)"
        )
    })?;
    // The client reads the file again when it changes.
    config.root_cert_file = Some(authority.to_owned());
    config.read_timeout = Some(READ_TIMEOUT);
    config.default_retry = false;
    Ok(config)
}

/// Waits until the kubelet or the user ends the program.
async fn wait_for_signal() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        result = tokio::signal::ctrl_c() => Ok(result?),
    }
}
