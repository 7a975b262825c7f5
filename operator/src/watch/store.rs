//! The objects of one kind, by name.

use std::collections::HashMap;
use std::sync::Arc;

use kube::Resource;
use parking_lot::RwLock;

use crate::key::Key;

/// The newest version that we know of each object: from the watch, or from the
/// answer to a write of our own, whichever is newer. So a reconcile sees what
/// the one before it wrote, however late the watch is.
#[derive(Debug)]
pub struct Store<K> {
    objects: RwLock<HashMap<Key, Arc<K>>>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            objects: RwLock::new(HashMap::new()),
        }
    }
}

impl<K: Resource<DynamicType = ()>> Store<K> {
    /// The object of that name.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.read().get(key).cloned()
    }

    /// Takes the object unless it is older than what is there. Says whether it was taken.
    pub fn put(&self, key: Key, object: K) -> bool {
        let mut objects = self.objects.write();
        if let Some(before) = objects.get(&key)
            && before.meta().uid == object.meta().uid
            && version(&object) < version(before.as_ref())
        {
            return false;
        }
        objects.insert(key, Arc::new(object));
        true
    }

    /// Forgets the object.
    pub fn remove(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.write().remove(key)
    }

    /// All objects, in no order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<K>> {
        self.objects.read().values().cloned().collect()
    }
}

/// Resource versions of one kind are numbers that grow (stable since
/// Kubernetes 1.35, KEP-5504).
fn version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}
