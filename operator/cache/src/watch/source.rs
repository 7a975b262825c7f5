//! Lists and watches one kind.

use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::ObjectList;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::item::WatchedItem;

/// Stream of watch events.
pub(super) type Events<K> = BoxStream<'static, kube::Result<WatchEvent<WatchedItem<K>>>>;

/// The API server, or a test's replacement for it.
pub(super) trait WatchSource<K: Clone>: Send + Sync {
    /// Lists at most `limit` objects: the first page, or the one after the page that returned the
    /// continue token `after`.
    fn list(
        &self,
        limit: u32,
        after: Option<String>,
    ) -> impl Future<Output = kube::Result<ObjectList<WatchedItem<K>>>> + Send;

    /// Watches events after this version, for this many seconds.
    fn watch(
        &self,
        version: u64,
        seconds: u32,
    ) -> impl Future<Output = kube::Result<Events<K>>> + Send;
}

/// The objects of one kind at an API server.
pub(super) struct ApiServerSource<K> {
    pub(super) api: Api<WatchedItem<K>>,
    /// Label selector of the list and the watch.
    pub(super) labels: Option<String>,
}

impl<K> WatchSource<K> for ApiServerSource<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    async fn list(
        &self,
        limit: u32,
        after: Option<String>,
    ) -> kube::Result<ObjectList<WatchedItem<K>>> {
        // A list without a version is a consistent read: it is never older than what any API server
        // has returned.
        let which = ListParams {
            label_selector: self.labels.clone(),
            limit: Some(limit),
            continue_token: after,
            ..ListParams::default()
        };
        self.api.list(&which).await
    }

    async fn watch(&self, version: u64, seconds: u32) -> kube::Result<Events<K>> {
        let which = WatchParams {
            label_selector: self.labels.clone(),
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        let events = self.api.watch(&which, &version.to_string()).await?;
        Ok(events.boxed())
    }
}
