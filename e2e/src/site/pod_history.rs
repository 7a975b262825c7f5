//! A record of all pods of a namespace. It shows pods that were created twice under one name, even
//! if one of them is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use tokio::task::JoinHandle;

/// Pause before a broken watch is started again.
const WATCH_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Pod names, and all uids of each name.
pub type PodUidsByName = BTreeMap<String, BTreeSet<String>>;

/// Watches the pods of a namespace until this value is dropped, also across restarts of the API
/// server.
#[derive(Debug)]
pub struct PodHistory {
    uids_by_name: Arc<Mutex<PodUidsByName>>,
    watch: JoinHandle<()>,
}

impl PodHistory {
    /// Starts the watch. It misses pods that were deleted before, or while the API server was down.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn record(pods: Api<Pod>) -> Self {
        let uids = Arc::new(Mutex::new(PodUidsByName::new()));
        let noted = Arc::clone(&uids);
        let watch = tokio::spawn(async move {
            let mut events = Box::pin(watcher(pods, watcher::Config::default()).touched_objects());
            loop {
                match events.try_next().await {
                    Ok(Some(pod)) => {
                        let mut uids = noted.lock().unwrap_or_else(PoisonError::into_inner);
                        uids.entry(pod.name_any())
                            .or_default()
                            .insert(pod.uid().unwrap_or_default());
                    }
                    Ok(None) => return,
                    // The back-off does not grow, because the watch misses pods during the pause.
                    Err(_) => tokio::time::sleep(WATCH_RETRY_PAUSE).await,
                }
            }
        });
        Self {
            uids_by_name: uids,
            watch,
        }
    }

    /// Returns all pods that the watch has shown.
    #[must_use]
    pub fn uids_by_name(&self) -> PodUidsByName {
        self.uids_by_name
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the names of which several pods existed.
    #[must_use]
    pub fn recreated_pods(&self) -> PodUidsByName {
        let mut repeated = self.uids_by_name();
        repeated.retain(|_, uids| uids.len() > 1);
        repeated
    }
}

impl Drop for PodHistory {
    fn drop(&mut self) {
        self.watch.abort();
    }
}
