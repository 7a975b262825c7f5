//! Where the objects of one kind are read.

use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::ObjectList;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::item::Item;

/// What a watch shows.
pub(super) type Events<K> = BoxStream<'static, kube::Result<WatchEvent<Item<K>>>>;

/// The API server, or what a test makes of it.
pub(super) trait Source<K: Clone>: Send + Sync {
    /// So many objects at most of all that there are now: the first, or those
    /// that follow after the page that gave this word.
    fn list(
        &self,
        limit: u32,
        after: Option<String>,
    ) -> impl Future<Output = kube::Result<ObjectList<Item<K>>>> + Send;

    /// What happens after that version, for so many seconds.
    fn watch(
        &self,
        version: u64,
        seconds: u32,
    ) -> impl Future<Output = kube::Result<Events<K>>> + Send;
}

/// The objects that an API server has of a kind.
pub(super) struct Server<K> {
    pub(super) api: Api<Item<K>>,
    /// Only those that bear these labels.
    pub(super) labels: Option<String>,
}

impl<K> Source<K> for Server<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    async fn list(&self, limit: u32, after: Option<String>) -> kube::Result<ObjectList<Item<K>>> {
        // Without a version it is a consistent read: never older than what any
        // API server has shown.
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
