//! The cluster of the kubeconfig.

mod access;
mod follow;
mod read;
mod simulated;

pub use access::{Access, Reach};
pub use follow::{Followed, follow, refusal};
pub use read::{Hints, Unread, list, named};
pub use simulated::is_simulated;

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
pub const AGENT: &str = concat!("kubectl-trellis/", env!("CARGO_PKG_VERSION"));

/// A cluster that can be asked.
pub struct Cluster {
    runtime: Runtime,
    client: Client,
    namespace: String,
    patience: Option<Duration>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Cluster")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Finds the cluster. Whether it answers, the first read shows. `otherwise` is what to do
    /// where there is none.
    ///
    /// # Errors
    /// If none is configured, or not so that it is of use.
    pub fn connect(
        access: &Access,
        agent: &'static str,
        otherwise: Option<&'static str>,
    ) -> anyhow::Result<Self> {
        let otherwise = otherwise
            .map(|hint| format!(" ({hint})"))
            .unwrap_or_default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut config = runtime
            .block_on(access.config())
            .map_err(|error| anyhow!("no cluster is configured: {}{otherwise}", said(&error)))?;
        config.headers.push((
            HeaderName::from_static("user-agent"),
            HeaderValue::from_static(agent),
        ));
        let patience = access.patience();
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
            patience: patience.unwrap_or(Some(SCHEDULER_TIMEOUT)),
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
    pub fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Waits for what is asked.
    pub fn wait_for<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

/// What is wrong with a kubeconfig. kube quotes the file twice.
fn said(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, file) => format!("cannot read {file:?}: {error}"),
        other => other.to_string(),
    }
}
