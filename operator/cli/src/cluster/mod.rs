//! The cluster of the kubeconfig.

mod api_reads;
mod follow;
mod kubeconfig;
mod simulated_nodes;

pub use api_reads::{ApiFailure, ErrorHints, get_optional, list};
pub use follow::{FollowResult, follow, permanent_error};
pub use kubeconfig::{ClusterOptions, KubeconfigOptions};
pub use simulated_nodes::is_simulated;

use std::time::Duration;

use anyhow::anyhow;
use http::{HeaderName, HeaderValue};
use kube::Client;
use kube::config::KubeconfigError;
use tokio::runtime::Runtime;

/// Longest wait for a connection, and for an answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for an answer of the scheduler, which answers from memory.
const SCHEDULER_TIMEOUT: Duration = Duration::from_secs(5);

/// Who the commands are to the API server: its logs, and who owns what fields.
pub const USER_AGENT: &str = concat!("kubectl-trellis/", env!("CARGO_PKG_VERSION"));

/// A cluster that can be asked.
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
    /// Finds the cluster. Whether it answers, the first read shows. `otherwise` is what to do
    /// where there is none.
    ///
    /// # Errors
    /// If none is configured, or not so that it is of use.
    pub fn connect(
        access: &KubeconfigOptions,
        agent: &'static str,
        otherwise: Option<&'static str>,
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
        config.read_timeout = patience.unwrap_or(Some(READ_TIMEOUT));
        // A user who waits wants to hear soon.
        config.default_retry = false;
        let namespace = config.default_namespace.clone();
        let client = runtime
            .block_on(async { Client::try_from(config) })
            .map_err(|error| {
                anyhow!("the cluster's configuration is of no use: {error}{otherwise}")
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

    /// Who asks.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// How long to wait for an answer of the scheduler: `--request-timeout`, else five seconds.
    /// None: as long as it takes.
    #[must_use]
    pub fn scheduler_timeout(&self) -> Option<Duration> {
        self.scheduler_timeout
    }

    /// Waits for what is asked.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

/// What is wrong with a kubeconfig. kube quotes the file twice.
fn describe_error(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, file) => format!("cannot read {file:?}: {error}"),
        other => other.to_string(),
    }
}
