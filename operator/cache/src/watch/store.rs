//! The objects of one kind, by name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube::Resource;
use parking_lot::RwLock;
use trellis_gang::key::Key;

use super::tombstones::Tombstones;

/// The newest known version of each object: from the watch, or from the answer to one of our own
/// requests. So a reconciliation sees what the previous one wrote, however late the watch is.
///
/// Only the watch decides whether an object exists. An answer may arrive after the object was
/// deleted, so it does not prove that the object exists. An object that was created and deleted
/// while the watch was broken is in no event: after a complete list, an object that the list lacks
/// was deleted, unless it is newer than the list.
#[derive(Debug)]
pub struct Store<K> {
    inner: RwLock<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    objects: HashMap<Key, Arc<K>>,
    gone: Tombstones,
    /// Version of the last complete list.
    listed: Option<u64>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            inner: RwLock::new(Inner {
                objects: HashMap::new(),
                gone: Tombstones::default(),
                listed: None,
            }),
        }
    }
}

impl<K: Resource<DynamicType = ()>> Store<K> {
    /// The object of that name.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.inner.read().objects.get(key).cloned()
    }

    /// Stores the object as the watch shows it, unless an answer has shown a newer one of that
    /// name. True if it was stored.
    pub fn observed(&self, key: Key, object: K) -> bool {
        let mut inner = self.inner.write();
        if let Some(before) = inner.objects.get(&key).cloned() {
            if version(&object) < version(before.as_ref()) {
                return false;
            }
            if before.meta().uid != object.meta().uid {
                inner.gone.add(uid(before.as_ref()));
            }
        }
        inner.objects.insert(key, Arc::new(object));
        true
    }

    /// Stores the object that a create or a read returned, unless the watch has shown its end, a
    /// later list lacks it, or a newer object of that name is known. True if it was stored.
    pub fn found(&self, key: Key, object: K) -> bool {
        let mut inner = self.inner.write();
        let older = match inner.objects.get(&key) {
            Some(before) => version(&object) <= version(before.as_ref()),
            None => inner.listed.is_some_and(|at| version(&object) <= Some(at)),
        };
        if older || inner.gone.contains(uid(&object)) {
            return false;
        }
        inner.objects.insert(key, Arc::new(object));
        true
    }

    /// Stores the object that an update returned in place of an older version of the same object.
    /// An object that is not in the store was deleted meanwhile. True if it was stored.
    pub fn answered(&self, key: Key, object: K) -> bool {
        let mut inner = self.inner.write();
        let replaces = inner.objects.get(&key).is_some_and(|before| {
            before.meta().uid == object.meta().uid && version(before.as_ref()) < version(&object)
        });
        if replaces {
            inner.objects.insert(key, Arc::new(object));
        }
        replaces
    }

    /// Removes the object of that uid, because the watch shows its deletion. An object of the same
    /// name that Trellis has created since stays.
    pub fn deleted(&self, key: &Key, gone: &str) {
        let mut inner = self.inner.write();
        inner.gone.add(gone);
        if inner
            .objects
            .get(key)
            .is_some_and(|o| uid(o.as_ref()) == gone)
        {
            inner.objects.remove(key);
        }
    }

    /// Called after a complete list of that version. Returns stored objects that no longer exist.
    pub fn ghosts(&self, listed: &HashSet<Key>, at: u64) -> Vec<(Key, String)> {
        let mut inner = self.inner.write();
        inner.listed = Some(at);
        let objects = inner.objects.iter();
        objects
            .filter(|(key, o)| !listed.contains(*key) && version(o.as_ref()) <= Some(at))
            .map(|(key, o)| (key.clone(), uid(o.as_ref()).to_owned()))
            .collect()
    }

    /// Removes the object of that name, because its stored state is of no use.
    pub fn remove(&self, key: &Key) -> Option<Arc<K>> {
        self.inner.write().objects.remove(key)
    }

    /// True if the store is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.read().objects.is_empty()
    }

    /// All objects, in no order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<K>> {
        self.inner.read().objects.values().cloned().collect()
    }
}

fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// Resource versions of one kind are increasing numbers over all objects of the kind (stable since
/// Kubernetes 1.35, KEP-5504).
pub(super) fn version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    use super::*;

    fn object(uid: &str, version: u64) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                uid: Some(uid.to_owned()),
                resource_version: Some(version.to_string()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    fn key() -> Key {
        Key::new("ns", "a")
    }

    fn there(store: &Store<ConfigMap>) -> Option<(String, u64)> {
        let object = store.get(&key())?;
        Some((uid(object.as_ref()).to_owned(), version(object.as_ref())?))
    }

    #[test]
    fn the_newer_one_stays_whoever_shows_it() {
        let store = Store::default();
        assert!(store.observed(key(), object("a", 1)));
        assert!(store.answered(key(), object("a", 3)));
        assert!(!store.observed(key(), object("a", 2)), "the watch is late");
        assert!(!store.answered(key(), object("a", 3)), "nothing new");
        assert!(store.observed(key(), object("a", 4)));
        assert_eq!(there(&store), Some(("a".to_owned(), 4)));
    }

    #[test]
    fn a_late_answer_brings_no_deleted_object_back() {
        let store = Store::default();
        store.observed(key(), object("a", 1));
        store.deleted(&key(), "a");
        assert!(!store.answered(key(), object("a", 2)), "to a patch");
        assert!(!store.found(key(), object("a", 1)), "to a create");
        assert_eq!(there(&store), None);
        assert!(store.found(key(), object("b", 4)), "another one");
    }

    #[test]
    fn a_late_answer_does_not_replace_the_next_one_of_that_name() {
        let store = Store::default();
        store.observed(key(), object("a", 1));
        // The object was deleted and created again; the watch showed only the new one.
        store.observed(key(), object("b", 4));
        assert!(!store.answered(key(), object("a", 5)));
        assert!(!store.found(key(), object("a", 2)));
        store.deleted(&key(), "b");
        assert!(!store.found(key(), object("a", 2)), "it was gone before");
        assert_eq!(there(&store), None);
    }

    #[test]
    fn a_late_watch_does_not_touch_what_a_create_has_made() {
        let store = Store::default();
        store.observed(key(), object("a", 1));
        store.remove(&key());
        assert!(store.found(key(), object("b", 5)));
        assert!(!store.observed(key(), object("a", 2)));
        store.deleted(&key(), "a");
        assert_eq!(there(&store), Some(("b".to_owned(), 5)));
    }

    /// Applies a list of that version to the store, and returns the ghosts.
    fn listed(store: &Store<ConfigMap>, shown: &[Key], at: u64) -> Vec<(Key, String)> {
        let ghosts = store.ghosts(&shown.iter().cloned().collect(), at);
        for (key, uid) in &ghosts {
            store.deleted(key, uid);
        }
        ghosts
    }

    #[test]
    fn what_an_answer_alone_has_shown_goes_with_the_list_that_does_not_show_it() {
        let store = Store::default();
        store.found(key(), object("a", 5));
        assert_eq!(listed(&store, &[key()], 7), [], "it is there");
        assert_eq!(listed(&store, &[], 7), [(key(), "a".to_owned())]);
        assert_eq!(there(&store), None);
        assert!(!store.found(key(), object("a", 6)), "it is gone");
    }

    #[test]
    fn what_came_after_the_list_stays() {
        let store = Store::default();
        store.found(key(), object("a", 8));
        assert_eq!(listed(&store, &[], 7), []);
        assert_eq!(there(&store), Some(("a".to_owned(), 8)));
    }

    #[test]
    fn an_answer_that_is_older_than_a_list_which_does_not_show_it_is_too_late() {
        let store = Store::default();
        assert_eq!(listed(&store, &[], 7), []);
        assert!(!store.found(key(), object("a", 7)));
        assert_eq!(there(&store), None);
        assert!(store.found(key(), object("b", 8)));
    }
}
