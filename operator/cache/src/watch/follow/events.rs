//! Hands the events of a watch and the objects of a list to the sink.

use kube::Resource;
use kube::api::{ObjectMeta, WatchEvent};
use tracing::warn;
use trellis_gang::key::Key;

use super::{FollowError, Follower, Sink, parse_version};
use crate::watch::item::{Undecodable, WatchedItem};

impl<S, R> Follower<S, R> {
    pub(super) fn handle_event<K>(
        &mut self,
        event: WatchEvent<WatchedItem<K>>,
    ) -> Result<(), FollowError>
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
    {
        match event {
            WatchEvent::Added(item) | WatchEvent::Modified(item) => {
                self.record_item_version(&item)?;
                self.apply(item);
            }
            WatchEvent::Deleted(item) => {
                self.record_item_version(&item)?;
                self.delete(&item);
            }
            WatchEvent::Bookmark(bookmark) => {
                self.record_version(Some(&bookmark.metadata.resource_version))?;
                self.has_bookmarks = true;
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
        }
        Ok(())
    }

    /// Applies an object. Returns its key, or None if the object has no readable name.
    pub(super) fn apply<K>(&mut self, item: WatchedItem<K>) -> Option<Key>
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
    {
        let key = Key::from_meta(item.meta());
        match item {
            WatchedItem::Object(object) => {
                self.uids.insert(key.clone(), uid(object.meta()).into());
                self.sink.apply(key.clone(), object);
            }
            WatchedItem::Undecodable { meta, error } => {
                warn!(kind = %K::kind(&()), object = %key, uid = uid(&meta), %error, "an object does not decode");
                meta.name.as_ref()?;
                let before = self.uids.insert(key.clone(), uid(&meta).into());
                if let Some(before) = before.filter(|before| **before != *uid(&meta)) {
                    self.sink.delete(&key, &before);
                }
                let object = Undecodable {
                    uid: uid(&meta).to_owned(),
                    generation: meta.generation,
                    error,
                };
                self.sink.undecodable(&key, object);
            }
        }
        Some(key)
    }

    /// Applies a deletion, whether or not the object decodes.
    fn delete<K>(&mut self, item: &WatchedItem<K>)
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
    {
        let meta = item.meta();
        if meta.name.is_some() {
            let key = Key::from_meta(meta);
            self.uids.remove(&key);
            self.sink.delete(&key, uid(meta));
        }
    }

    /// Records the version of an object. An object that does not decode may have none.
    fn record_item_version<K: Resource>(
        &mut self,
        item: &WatchedItem<K>,
    ) -> Result<(), FollowError> {
        let saw = self.record_version(item.meta().resource_version.as_deref());
        match item {
            WatchedItem::Object(_) => saw,
            WatchedItem::Undecodable { .. } => Ok(()),
        }
    }

    fn record_version(&mut self, version: Option<&str>) -> Result<(), FollowError> {
        self.latest_version = self.latest_version.max(parse_version(version)?);
        Ok(())
    }
}

fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}
