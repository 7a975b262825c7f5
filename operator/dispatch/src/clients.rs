//! The two clients: one for watches, one for writes.
//!
//! They handle failures differently. A watch starts over, so it may wait and retry. A write must
//! fail fast and without a retry: only the caller knows whether to repeat it. A retry after the
//! lease has run out would be a write of a former leader.

use std::error::Error as _;
use std::time::Duration;

use anyhow::anyhow;
use http::{HeaderName, HeaderValue};
use kube::config::KubeconfigError;
use kube::{Client, Config};

use crate::leader::REQUEST_TIMEOUT;

/// Longest silence of a watch. It is longer than the limit of [`trellis_cache::watch`], which
/// reports why a watch starts over.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(110);

/// The clients of one process.
#[derive(Clone)]
pub struct Clients {
    /// For lists and watches.
    pub watch: Client,
    /// For everything that writes, and for single reads that a write depends on.
    pub command: Client,
}

impl Clients {
    /// Returns the clients for the cluster of the environment: in the cluster, or by kubeconfig.
    ///
    /// # Errors
    /// If no cluster is configured, or its configuration is unusable.
    pub async fn infer() -> anyhow::Result<Self> {
        // kube's own messages repeat each part.
        let mut config = Config::infer().await.map_err(|error| {
            let why = match error.source().and_then(|s| s.downcast_ref()) {
                Some(KubeconfigError::ReadConfig(error, file)) => {
                    format!("the kubeconfig {file:?} cannot be read: {error}")
                }
                Some(other) => other.to_string(),
                None => error.to_string(),
            };
            anyhow!("no cluster is configured: this is no pod of one, and {why}; name a kubeconfig in $KUBECONFIG")
        })?;
        config.headers.push((
            HeaderName::from_static("user-agent"),
            HeaderValue::from_static(concat!("trellis/", env!("CARGO_PKG_VERSION"))),
        ));
        // This is the last resort, because watches and lists have shorter timeouts.
        config.read_timeout = Some(WATCH_TIMEOUT);
        let watch = Client::try_from(config.clone())?;
        config.connect_timeout = Some(REQUEST_TIMEOUT);
        config.read_timeout = Some(REQUEST_TIMEOUT);
        config.reset_reader_on_write = true;
        config.default_retry = false;
        let command = Client::try_from(config)?;
        Ok(Self { watch, command })
    }
}
