//! A record of all pods of a namespace. It shows pods that were created twice under one name, even
//! if one of them is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};

use super::object_watch::ObjectWatch;

/// Pod names, and all uids of each name.
pub type PodUidsByName = BTreeMap<String, BTreeSet<String>>;

/// Watches the pods of a namespace until this value is dropped, also across restarts of the API
/// server.
#[derive(Debug)]
pub struct PodHistory {
    uids_by_name: Arc<Mutex<PodUidsByName>>,
    _watch: ObjectWatch,
}

impl PodHistory {
    /// Starts the watch. It misses pods that were deleted before, or while the API server was down.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn record(pods: Api<Pod>) -> Self {
        let uids_by_name = Arc::new(Mutex::new(PodUidsByName::new()));
        let recorded = Arc::clone(&uids_by_name);
        let watch = ObjectWatch::start(pods, watcher::Config::default(), move |pod: &Pod| {
            let mut uids = recorded.lock().unwrap_or_else(PoisonError::into_inner);
            uids.entry(pod.name_any())
                .or_default()
                .insert(pod.uid().unwrap_or_default());
        });
        Self {
            uids_by_name,
            _watch: watch,
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
