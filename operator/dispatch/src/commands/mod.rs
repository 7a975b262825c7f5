//! All writes of the operator except those to the Lease and the LeaderTerm (`leader`), from which
//! leadership comes.
//! Each write first checks the leadership. The limiter bounds the writes in flight, and errors are
//! classified by the right reaction.

mod error;
mod events;
mod external_pods;
mod limiter;
mod reads;
mod removal;

use std::sync::Arc;

use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ClusterResourceScope, NamespaceResourceScope, Request as KubeRequest};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use trellis_cache::watch;
use trellis_gang::journal::epoch::Epoch;

use crate::leader::{Leadership, NotLeading};
use crate::{OperatorMetrics, span};

pub use error::WriteError;
pub(crate) use external_pods::UNSCHEDULABLE;
use limiter::{Limiter, WritePriority};
pub use removal::{DeletionResult, EvictionResult};

/// Writes to the API server, as long as this replica leads.
#[derive(Clone)]
pub struct Commands {
    client: Client,
    leadership: Leadership,
    limiter: Arc<Limiter>,
    priority: WritePriority,
    /// Cancels writes that still wait for a permit.
    stop: Option<CancellationToken>,
    /// Metrics of write results.
    metrics: OperatorMetrics,
}

impl Commands {
    /// Returns the commands of a leader.
    #[must_use]
    pub fn new(client: Client, leadership: Leadership) -> Self {
        Self {
            client,
            leadership,
            limiter: Arc::new(Limiter::default()),
            priority: WritePriority::Normal,
            stop: None,
            metrics: OperatorMetrics::default(),
        }
    }

    /// Returns the same commands, with their writes counted in `counts`.
    #[must_use]
    pub fn with_metrics(self, counts: OperatorMetrics) -> Self {
        Self {
            metrics: counts,
            ..self
        }
    }

    /// Returns the number of writes in flight, and its limit.
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        self.limiter.usage()
    }

    /// Returns the same commands, for writes that are dropped if `stop` is cancelled before their
    /// turn. Writes already in flight run to their end.
    #[must_use]
    pub(crate) fn with_cancellation(&self, stop: &CancellationToken) -> Self {
        Self {
            stop: Some(stop.clone()),
            ..self.clone()
        }
    }

    /// Returns the same commands, for reports on completed work. While gangs wait for their pods, a
    /// report waits for their writes, for a few seconds at most. GPUs stay idle until a pod exists,
    /// but a late event costs nothing.
    #[must_use]
    pub(crate) fn with_low_priority(&self) -> Self {
        self.with_low_priority_since(Instant::now())
    }

    /// Returns the same commands, for a report that has waited since this time.
    #[must_use]
    pub fn with_low_priority_since(&self, since: Instant) -> Self {
        let waited = since.elapsed();
        Self {
            priority: WritePriority::Low { waited },
            ..self.clone()
        }
    }

    /// Returns the same commands, for writes that `stop` does not cancel.
    #[must_use]
    pub(crate) fn without_cancellation(&self) -> Self {
        Self {
            stop: None,
            ..self.clone()
        }
    }

    /// Returns the epoch of this leader.
    ///
    /// # Errors
    /// If this replica does not lead.
    pub fn epoch(&self) -> Result<Epoch, NotLeading> {
        self.leadership.check()
    }

    /// Raises the epoch above an epoch that was seen in a journal.
    pub(crate) async fn raise_epoch_above(&self, journaled: Epoch) {
        self.leadership.raise_above(journaled).await;
    }

    /// Runs one write to a namespace under the limit. The write fails if this replica does not lead
    /// when its turn comes, or loses the lease during the write.
    async fn write<T>(
        &self,
        namespace: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        self.write_with_effect(WriteEffect::Persistent, namespace, request)
            .await
    }

    async fn write_with_effect<T>(
        &self,
        effect: WriteEffect,
        namespace: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        let write = self.write_with_permit(effect, namespace, request);
        write.instrument(span!("write", namespace)).await
    }

    async fn write_with_permit<T>(
        &self,
        effect: WriteEffect,
        namespace: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        let permit = self.limiter.acquire(self.priority, namespace);
        let permit = match &self.stop {
            None => permit.await,
            Some(stop) => tokio::select! {
                biased;
                () = stop.cancelled() => return Err(WriteError::Withdrawn),
                permit = permit => permit,
            },
        };
        self.leadership.check()?;
        let time = self.leadership.request_time();
        let began = Instant::now();
        let result = tokio::select! {
            biased;
            result = request => result.map_err(WriteError::from),
            () = self.leadership.wait_until_lost() => {
                Err(WriteError::Unanswered("the lease was lost before an answer came".to_owned()))
            }
            () = tokio::time::sleep(time) => {
                Err(WriteError::Unanswered(format!("no answer came within {time:?}")))
            }
        };
        // A dry run without an answer may hang in a webhook, so it is no sign of the API server's
        // load.
        let pushed_back = match &result {
            Err(WriteError::Unanswered(_)) if effect == WriteEffect::None => false,
            Err(error) => error.is_push_back(),
            Ok(_) => false,
        };
        permit.report(pushed_back);
        // Dry runs do not count, because they write nothing and admission may refuse a user's pod.
        if effect == WriteEffect::Persistent {
            let outcome = result.as_ref().map(|_| ());
            self.metrics.count_write(outcome, began.elapsed());
        }
        result
    }

    /// Creates an object. The answer is decoded as `A`, which may have fewer fields than the sent
    /// object.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn create<K, A>(
        &self,
        namespace: &str,
        manager: &str,
        object: &K,
        dry_run: bool,
    ) -> Result<A, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize,
        A: DeserializeOwned,
    {
        let path = K::url_path(&(), Some(namespace));
        self.create_at(path, manager, object, dry_run).await
    }

    /// Creates an object without a namespace.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn create_cluster<K>(&self, manager: &str, object: &K) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Serialize + DeserializeOwned,
    {
        let path = K::url_path(&(), None);
        self.create_at(path, manager, object, false).await
    }

    async fn create_at<A: DeserializeOwned>(
        &self,
        path: String,
        manager: &str,
        object: &impl Serialize,
        dry_run: bool,
    ) -> Result<A, WriteError> {
        let params = PostParams {
            dry_run,
            field_manager: Some(manager.to_owned()),
        };
        let body = serde_json::to_vec(object).map_err(|e| WriteError::Transient(e.to_string()))?;
        let request = KubeRequest::new(&path).create(&params, body);
        let effect = if dry_run {
            WriteEffect::None
        } else {
            WriteEffect::Persistent
        };
        let request = self.send_request(request);
        self.write_with_effect(effect, namespace_of(&path), request)
            .await
    }

    /// Changes an object by a merge patch. A `resourceVersion` in the patch
    /// makes it a compare-and-set. The answer is decoded as `A`.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch_as<A: DeserializeOwned>(
        &self,
        path: &str,
        name: &str,
        manager: &str,
        patch: &serde_json::Value,
    ) -> Result<A, WriteError> {
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        let request = KubeRequest::new(path).patch(name, &params, &Patch::Merge(patch));
        self.write(namespace_of(path), self.send_request(request))
            .await
    }

    /// Patches an object's status. A `resourceVersion` in the patch makes it a compare-and-set.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch_status<K>(
        &self,
        namespace: &str,
        name: &str,
        manager: &str,
        patch: &serde_json::Value,
    ) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    {
        let path = K::url_path(&(), Some(namespace));
        self.patch_status_at(path, name, manager, patch).await
    }

    /// Patches the status of an object without a namespace, as [`Self::patch_status`] does.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch_cluster_status<K>(
        &self,
        name: &str,
        manager: &str,
        patch: &serde_json::Value,
    ) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + DeserializeOwned,
    {
        let path = K::url_path(&(), None);
        self.patch_status_at(path, name, manager, patch).await
    }

    async fn patch_status_at<K: DeserializeOwned>(
        &self,
        path: String,
        name: &str,
        manager: &str,
        patch: &serde_json::Value,
    ) -> Result<K, WriteError> {
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(patch);
        let request = KubeRequest::new(&path).patch_subresource("status", name, &params, &patch);
        self.write(namespace_of(&path), self.send_request(request))
            .await
    }

    /// Sends a request and decodes the answer. Malformed `managedFields` do not fail the decoding.
    /// Otherwise a successful write would count as failed, and be repeated.
    pub(super) async fn send_request<A: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> kube::Result<A> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        let request_span =
            span!("request", method = %request.method(), path = request.uri().path());
        let text = self
            .client
            .request_text(request)
            .instrument(request_span)
            .await?;
        watch::decode_object(&text).map_err(kube::Error::SerdeError)
    }
}

/// Effect of a write on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteEffect {
    /// A dry run, which changes nothing.
    None,
    Persistent,
}

/// Returns the namespace of a path to objects of one kind. Empty if they are cluster-scoped.
fn namespace_of(path: &str) -> &str {
    let rest = path.split_once("/namespaces/").map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('/').next())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
