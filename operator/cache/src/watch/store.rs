//! The objects of one kind, by name.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use kube::Resource;
use parking_lot::RwLock;
use trellis_gang::key::Key;

use super::tombstones::Tombstones;

/// The newest known version of each object, from the watch or from the answer to one of our own
/// requests. So a reconciliation sees the previous one's writes, even if the watch is late.
///
/// Only the watch decides whether an object exists. An answer may arrive after the object was
/// deleted, so it does not prove that the object exists. No event shows an object that was created
/// and deleted while the watch was broken. So an object that a complete list lacks was deleted,
/// unless it is newer than the list.
#[derive(Debug)]
pub struct Store<K> {
    inner: RwLock<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    /// By name, so that every process reads them in one order: the order in which a new leader
    /// takes over gangs must not depend on hashes.
    objects: BTreeMap<Key, Arc<K>>,
    deleted: Tombstones,
    /// Version of the last complete list.
    listed: Option<u64>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            inner: RwLock::new(Inner {
                objects: BTreeMap::new(),
                deleted: Tombstones::default(),
                listed: None,
            }),
        }
    }
}

impl<K: Resource<DynamicType = ()>> Store<K> {
    /// Returns the object of that name.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.inner.read().objects.get(key).cloned()
    }

    /// Stores the object as the watch shows it, unless an answer has shown a newer object with this
    /// name. Returns true if it stored the object.
    pub fn insert_observed(&self, key: Key, object: K) -> bool {
        let mut inner = self.inner.write();
        if let Some(before) = inner.objects.get(&key).cloned() {
            if version(&object) < version(before.as_ref()) {
                return false;
            }
            if before.meta().uid != object.meta().uid {
                inner.deleted.add(uid(before.as_ref()));
            }
        }
        inner.objects.insert(key, Arc::new(object));
        true
    }

    /// Stores the object that a create or a read returned, unless the watch has shown its deletion,
    /// a later list lacks it, or a newer object with this name is known. Returns true if it stored
    /// the object.
    pub fn insert_returned(&self, key: Key, object: K) -> bool {
        let mut inner = self.inner.write();
        let older = match inner.objects.get(&key) {
            Some(before) => version(&object) <= version(before.as_ref()),
            None => inner.listed.is_some_and(|at| version(&object) <= Some(at)),
        };
        if older || inner.deleted.contains(uid(&object)) {
            return false;
        }
        inner.objects.insert(key, Arc::new(object));
        true
    }

    /// Stores the object that an update returned in place of an older version of the same object.
    /// An object that is not in the store has been deleted since. Returns true if it stored the
    /// object.
    pub fn update_returned(&self, key: Key, object: K) -> bool {
        let mut inner = self.inner.write();
        let replaces = inner.objects.get(&key).is_some_and(|before| {
            before.meta().uid == object.meta().uid && version(before.as_ref()) < version(&object)
        });
        if replaces {
            inner.objects.insert(key, Arc::new(object));
        }
        replaces
    }

    /// Removes the object with this uid, because the watch shows its deletion. Keeps an object of
    /// the same name that Trellis has created since.
    pub fn delete_observed(&self, key: &Key, gone: &str) {
        let mut inner = self.inner.write();
        inner.deleted.add(gone);
        if inner
            .objects
            .get(key)
            .is_some_and(|o| uid(o.as_ref()) == gone)
        {
            inner.objects.remove(key);
        }
    }

    /// Handles a complete list of version `at`. Returns the stored objects that no longer exist, in
    /// the order of their keys.
    pub fn unlisted_objects(&self, listed: &HashSet<Key>, at: u64) -> Vec<(Key, String)> {
        let mut inner = self.inner.write();
        inner.listed = Some(at);
        let objects = inner.objects.iter();
        objects
            .filter(|(key, o)| !listed.contains(*key) && version(o.as_ref()) <= Some(at))
            .map(|(key, o)| (key.clone(), uid(o.as_ref()).to_owned()))
            .collect()
    }

    /// Removes the object with this name, because its stored state is useless.
    pub fn remove(&self, key: &Key) -> Option<Arc<K>> {
        self.inner.write().objects.remove(key)
    }

    /// Returns true if the store is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.read().objects.is_empty()
    }

    /// Returns all objects, in the order of their keys.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<K>> {
        self.inner.read().objects.values().cloned().collect()
    }
}

fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// Returns the resource version as a number. Versions of one kind increase over all its objects
/// (stable since Kubernetes 1.35, KEP-5504).
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

    fn stored_uid_and_version(store: &Store<ConfigMap>) -> Option<(String, u64)> {
        let object = store.get(&key())?;
        Some((uid(object.as_ref()).to_owned(), version(object.as_ref())?))
    }

    #[test]
    fn newest_version_of_an_object_stays() {
        let store = Store::default();
        assert!(store.insert_observed(key(), object("a", 1)));
        assert!(store.update_returned(key(), object("a", 3)));
        assert!(
            !store.insert_observed(key(), object("a", 2)),
            "the watch is late"
        );
        assert!(!store.update_returned(key(), object("a", 3)), "nothing new");
        assert!(store.insert_observed(key(), object("a", 4)));
        assert_eq!(stored_uid_and_version(&store), Some(("a".to_owned(), 4)));
    }

    #[test]
    fn objects_and_unlisted_objects_come_in_the_order_of_their_keys() {
        let store = Store::default();
        for name in ["c", "a", "d", "b", "e"] {
            store.insert_observed(Key::new("ns", name), object(name, 1));
        }
        let uids: Vec<_> = store
            .all()
            .iter()
            .map(|o| uid(o.as_ref()).to_owned())
            .collect();
        assert_eq!(uids, ["a", "b", "c", "d", "e"]);
        let unlisted = store.unlisted_objects(&HashSet::from([Key::new("ns", "c")]), 2);
        let unlisted: Vec<_> = unlisted.into_iter().map(|(_, uid)| uid).collect();
        assert_eq!(unlisted, ["a", "b", "d", "e"]);
    }

    #[test]
    fn late_answer_does_not_restore_a_deleted_object() {
        let store = Store::default();
        store.insert_observed(key(), object("a", 1));
        store.delete_observed(&key(), "a");
        assert!(!store.update_returned(key(), object("a", 2)), "to a patch");
        assert!(!store.insert_returned(key(), object("a", 1)), "to a create");
        assert_eq!(stored_uid_and_version(&store), None);
        assert!(store.insert_returned(key(), object("b", 4)), "another one");
    }

    #[test]
    fn late_answer_does_not_replace_a_newer_object_of_that_name() {
        let store = Store::default();
        store.insert_observed(key(), object("a", 1));
        // The object was deleted and created again; the watch showed only the new one.
        store.insert_observed(key(), object("b", 4));
        assert!(!store.update_returned(key(), object("a", 5)));
        assert!(!store.insert_returned(key(), object("a", 2)));
        store.delete_observed(&key(), "b");
        assert!(
            !store.insert_returned(key(), object("a", 2)),
            "it was gone before"
        );
        assert_eq!(stored_uid_and_version(&store), None);
    }

    #[test]
    fn late_watch_does_not_remove_a_created_object() {
        let store = Store::default();
        store.insert_observed(key(), object("a", 1));
        store.remove(&key());
        assert!(store.insert_returned(key(), object("b", 5)));
        assert!(!store.insert_observed(key(), object("a", 2)));
        store.delete_observed(&key(), "a");
        assert_eq!(stored_uid_and_version(&store), Some(("b".to_owned(), 5)));
    }

    /// Applies a list of version `at` to the store. Returns the objects that no longer exist.
    fn apply_list(store: &Store<ConfigMap>, listed: &[Key], at: u64) -> Vec<(Key, String)> {
        let ghosts = store.unlisted_objects(&listed.iter().cloned().collect(), at);
        for (key, uid) in &ghosts {
            store.delete_observed(key, uid);
        }
        ghosts
    }

    #[test]
    fn returned_object_is_removed_when_a_later_list_lacks_it() {
        let store = Store::default();
        store.insert_returned(key(), object("a", 5));
        assert_eq!(apply_list(&store, &[key()], 7), [], "it is there");
        assert_eq!(apply_list(&store, &[], 7), [(key(), "a".to_owned())]);
        assert_eq!(stored_uid_and_version(&store), None);
        assert!(!store.insert_returned(key(), object("a", 6)), "it is gone");
    }

    #[test]
    fn object_newer_than_the_list_stays() {
        let store = Store::default();
        store.insert_returned(key(), object("a", 8));
        assert_eq!(apply_list(&store, &[], 7), []);
        assert_eq!(stored_uid_and_version(&store), Some(("a".to_owned(), 8)));
    }

    #[test]
    fn answer_older_than_a_list_without_the_object_is_ignored() {
        let store = Store::default();
        assert_eq!(apply_list(&store, &[], 7), []);
        assert!(!store.insert_returned(key(), object("a", 7)));
        assert_eq!(stored_uid_and_version(&store), None);
        assert!(store.insert_returned(key(), object("b", 8)));
    }
}
