//! The client of the cluster that the kubeconfig selects.

mod follow;
mod kubeconfig;
mod simulated_nodes;

pub use follow::{FollowResult, follow, permanent_error};
pub use kubeconfig::{ClusterOptions, KubeconfigOptions};
pub use simulated_nodes::is_simulated;

use std::time::Duration;

use anyhow::anyhow;
use http::{HeaderName, HeaderValue};
use kube::Client;
use kube::config::KubeconfigError;
use tokio::runtime::Runtime;
use trellis_reads::Reader;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest silence of a watch. The API server sends a bookmark every minute.
const WATCH_READ_TIMEOUT: Duration = Duration::from_secs(110);
/// Longest wait for an answer of the scheduler, which answers from memory.
const SCHEDULER_TIMEOUT: Duration = Duration::from_secs(5);

/// The user agent of the commands.
/// It appears in the API server's logs and as the field manager.
pub const USER_AGENT: &str = concat!("kubectl-trellis/", env!("CARGO_PKG_VERSION"));

/// A client of a cluster, with its runtime.
pub struct ClusterClient {
    runtime: Runtime,
    client: Client,
    namespace: String,
    scheduler_timeout: Option<Duration>,
}

impl std::fmt::Debug for ClusterClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Cluster")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl ClusterClient {
    /// Creates a client for the configured cluster.
    /// It sends no request, so the first read shows whether the cluster answers. `otherwise` is the
    /// advice to the user if no cluster is configured.
    ///
    /// # Errors
    /// If no cluster is configured, or the configuration is invalid.
    pub fn connect(
        access: &KubeconfigOptions,
        agent: &'static str,
        otherwise: Option<&'static str>,
    ) -> anyhow::Result<Self> {
        Self::connect_with(access, agent, otherwise, READ_TIMEOUT)
    }

    /// Creates a client whose watches may be silent for as long as an API server is silent.
    ///
    /// # Errors
    /// As for [`Self::connect`].
    pub fn connect_for_watches(
        access: &KubeconfigOptions,
        agent: &'static str,
    ) -> anyhow::Result<Self> {
        Self::connect_with(access, agent, None, WATCH_READ_TIMEOUT)
    }

    fn connect_with(
        access: &KubeconfigOptions,
        agent: &'static str,
        otherwise: Option<&'static str>,
        read_timeout: Duration,
    ) -> anyhow::Result<Self> {
        let otherwise = otherwise
            .map(|hint| format!(" ({hint})"))
            .unwrap_or_default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut config = runtime.block_on(access.load_config()).map_err(|error| {
            anyhow!(
                "no cluster is configured: {}{otherwise}",
                describe_error(&error)
            )
        })?;
        config.headers.push((
            HeaderName::from_static("user-agent"),
            HeaderValue::from_static(agent),
        ));
        let patience = access.request_timeout();
        config.connect_timeout = Some(patience.flatten().unwrap_or(CONNECT_TIMEOUT));
        config.read_timeout = patience.unwrap_or(Some(read_timeout));
        // Without retries, an interactive user sees an error soon.
        config.default_retry = false;
        let namespace = config.default_namespace.clone();
        let client = runtime
            .block_on(async { Client::try_from(config) })
            .map_err(|error| {
                anyhow!("the cluster's configuration cannot be used: {error}{otherwise}")
            })?;
        Ok(Self {
            runtime,
            client,
            namespace,
            scheduler_timeout: patience.unwrap_or(Some(SCHEDULER_TIMEOUT)),
        })
    }

    /// The namespace of the context.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The Kubernetes client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads in the namespace of the context.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            scheduler_timeout: self.scheduler_timeout,
        }
    }

    /// Timeout for an answer of the scheduler.
    /// `--request-timeout` sets it; the default is five seconds. None: no timeout.
    #[must_use]
    pub fn scheduler_timeout(&self) -> Option<Duration> {
        self.scheduler_timeout
    }

    /// Runs the future to completion.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

/// Describes an error of a kubeconfig.
/// The text of the kube crate contains the file name twice.
fn describe_error(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, file) => format!("cannot read {file:?}: {error}"),
        other => other.to_string(),
    }
}
