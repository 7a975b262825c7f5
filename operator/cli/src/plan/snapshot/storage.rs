//! The storage of one namespace in a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_gang::key::Key;
use trellis_gang::observed::{SlimClaim, SlimStorageClass, SlimVolume, default_class};
use trellis_gang::requirements::binding::Storage;

use super::cluster_snapshot::ClusterSnapshot;

/// A view on the claims, volumes and classes of a snapshot, for one namespace.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotStorage<'a> {
    snapshot: &'a ClusterSnapshot,
    namespace: &'a str,
}

impl ClusterSnapshot {
    /// Returns the storage of that namespace.
    pub(crate) fn storage<'a>(&'a self, namespace: &'a str) -> SnapshotStorage<'a> {
        SnapshotStorage {
            snapshot: self,
            namespace,
        }
    }
}

impl Storage for SnapshotStorage<'_> {
    fn claim(&self, name: &str) -> Option<Arc<SlimClaim>> {
        let claims = self.snapshot.claims.as_ref()?;
        claims.get(&Key::new(self.namespace, name)).cloned()
    }

    fn volume(&self, name: &str) -> Option<Arc<SlimVolume>> {
        self.snapshot.volumes.get(name).cloned()
    }

    fn volumes(&self) -> Vec<Arc<SlimVolume>> {
        self.snapshot.volumes.values().cloned().collect()
    }

    fn class(&self, name: &str) -> Option<Arc<SlimStorageClass>> {
        self.snapshot.storage_classes.get(name).cloned()
    }

    fn default_class(&self) -> Option<Arc<SlimStorageClass>> {
        default_class(self.snapshot.storage_classes.values().cloned())
    }

    fn node_labels(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let node = self.snapshot.nodes.get(name)?;
        Some(node.metadata.labels.clone().unwrap_or_default())
    }
}
