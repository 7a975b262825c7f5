//! A watch that reports the objects of a test, also across restarts of the API server.

use std::fmt::Debug;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

/// Pause before a broken watch is started again.
const WATCH_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A running watch. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct ObjectWatch(JoinHandle<()>);

impl ObjectWatch {
    /// Calls `report` with each existing object, each changed version, and the last version of each
    /// deleted object. The watch misses objects that were deleted before it began, or while the API
    /// server was down.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn start<K>(
        api: Api<K>,
        config: watcher::Config,
        mut report: impl FnMut(&K) + Send + 'static,
    ) -> Self
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        Self(tokio::spawn(async move {
            let mut changes = Box::pin(watcher(api, config).touched_objects());
            loop {
                match changes.try_next().await {
                    Ok(Some(object)) => report(&object),
                    Ok(None) => return,
                    // The back-off does not grow, because the watch misses objects in the pause.
                    Err(_) => tokio::time::sleep(WATCH_RETRY_PAUSE).await,
                }
            }
        }))
    }
}

impl Drop for ObjectWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}
