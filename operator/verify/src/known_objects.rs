//! The objects of one kind that a source has shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use kube::{Resource as _, ResourceExt as _};
use serde_json::Value;

use crate::history::{ObjectName, ObjectVersion, UnreadObject, Version};
use crate::judged_kinds::JudgedKind;

/// A change of an object of one kind.
#[derive(Debug)]
pub(crate) struct KindChange {
    pub(crate) kind: &'static str,
    pub(crate) revision: u64,
    pub(crate) object: ObjectVersion,
    /// As in [`Change`](crate::Change).
    pub(crate) is_listed: bool,
}

/// The objects of one kind that a watch or an audit log has shown.
///
/// A list shows no deletions, so they follow from the objects that it does not have. A list also
/// shows no order, so its changes are given out together at its end: the deletions first, then the
/// objects in the order of their revisions.
pub(crate) struct KnownObjects<K> {
    objects: BTreeMap<ObjectName, KnownObject<K>>,
    /// The list that is being read.
    list: List,
    /// The greatest revision so far.
    revision: u64,
}

/// The last version of an object.
struct KnownObject<K> {
    resource_version: Option<String>,
    /// The last version that decodes. None: none has decoded.
    object: Option<Arc<K>>,
    /// Set if the last version does not decode.
    unread: Option<UnreadObject>,
}

/// A list that is being read.
#[derive(Default)]
struct List {
    names: BTreeSet<ObjectName>,
    changes: Vec<KindChange>,
    /// The greatest revision before the list.
    revision_before: u64,
}

impl<K: JudgedKind> KnownObjects<K> {
    pub(crate) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            list: List::default(),
            revision: 0,
        }
    }

    pub(crate) fn take_in(
        &mut self,
        event: watcher::Event<DeserializeGuard<K>>,
    ) -> Vec<KindChange> {
        match event {
            watcher::Event::Init => {
                self.list = List {
                    revision_before: self.revision,
                    ..List::default()
                };
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                let name = ObjectName::from_metadata(object.meta());
                self.list.names.insert(name);
                if let Some(change) = self.store(object) {
                    self.list.changes.push(KindChange {
                        is_listed: true,
                        ..change
                    });
                }
                Vec::new()
            }
            watcher::Event::InitDone => self.finish_list(),
            watcher::Event::Apply(object) => self.store(object).into_iter().collect(),
            watcher::Event::Delete(object) => {
                let revision = self.advance(&object);
                let known = self
                    .objects
                    .remove(&ObjectName::from_metadata(object.meta()));
                let known = known.and_then(|known| known.object);
                let object = match object.0 {
                    Ok(mut object) => {
                        object.slim();
                        K::wrap(Version::Deleted(Arc::new(object)))
                    }
                    Err(invalid) => self.wrap_unread_deletion(known, &invalid.metadata),
                };
                vec![self.change(revision, object)]
            }
        }
    }

    /// Stores an object, unless it has not changed since a watch showed it.
    fn store(&mut self, object: DeserializeGuard<K>) -> Option<KindChange> {
        let name = ObjectName::from_metadata(object.meta());
        let resource_version = object.resource_version();
        let known = self.objects.get(&name);
        if known.is_some_and(|known| known.resource_version == resource_version) {
            return None;
        }
        let known = known.and_then(|known| known.object.clone());
        let revision = self.advance(&object);
        let (stored, version) = match object.0 {
            Ok(mut object) => {
                object.slim();
                let object = Arc::new(object);
                let version = K::wrap(Version::Stored(Arc::clone(&object)));
                let stored = KnownObject {
                    resource_version,
                    object: Some(object),
                    unread: None,
                };
                (stored, version)
            }
            Err(invalid) => {
                let unread = self.unread_object(&invalid.metadata);
                let stored = KnownObject {
                    resource_version,
                    object: known,
                    unread: Some(unread.clone()),
                };
                (
                    stored,
                    ObjectVersion::Unread(Version::Stored(Arc::new(unread))),
                )
            }
        };
        self.objects.insert(name, stored);
        Some(self.change(revision, version))
    }

    /// Returns the changes of a list that has been read: the deletions, then the other changes.
    fn finish_list(&mut self) -> Vec<KindChange> {
        let List {
            names,
            mut changes,
            revision_before,
        } = std::mem::take(&mut self.list);
        let gone = self.objects.extract_if(.., |name, _| !names.contains(name));
        let gone = gone.filter_map(|(_, known)| match (known.object, known.unread) {
            (Some(object), _) => Some(K::wrap(Version::Deleted(object))),
            (None, Some(unread)) => Some(ObjectVersion::Unread(Version::Deleted(Arc::new(unread)))),
            (None, None) => None,
        });
        let deletions = gone.map(|object| KindChange {
            kind: K::PLURAL,
            revision: revision_before,
            object,
            is_listed: true,
        });
        let deletions: Vec<KindChange> = deletions.collect();
        changes.sort_by_key(|change| change.revision);
        deletions.into_iter().chain(changes).collect()
    }

    fn change(&self, revision: u64, object: ObjectVersion) -> KindChange {
        KindChange {
            kind: K::PLURAL,
            revision,
            object,
            is_listed: false,
        }
    }

    fn unread_object(&self, metadata: &ObjectMeta) -> UnreadObject {
        UnreadObject {
            kind: K::PLURAL,
            name: ObjectName::from_metadata(metadata),
            uid: metadata.uid.clone().unwrap_or_default(),
        }
    }

    /// Returns the deletion of an object whose last version does not decode.
    fn wrap_unread_deletion(&self, known: Option<Arc<K>>, metadata: &ObjectMeta) -> ObjectVersion {
        match known {
            Some(object) => K::wrap(Version::Deleted(object)),
            None => {
                let unread = self.unread_object(metadata);
                ObjectVersion::Unread(Version::Deleted(Arc::new(unread)))
            }
        }
    }

    /// Returns the revision of an object.
    fn advance(&mut self, object: &DeserializeGuard<K>) -> u64 {
        let version = object.resource_version();
        // The API conventions allow clients to compare versions as numbers since KEP-5504.
        let revision = version.and_then(|version| version.parse().ok());
        let revision = revision.unwrap_or(self.revision);
        self.revision = self.revision.max(revision);
        revision
    }
}

/// [`KnownObjects`] of a kind that is not known at compile time.
pub(crate) trait KnownObjectsOfAnyKind: Send {
    /// Takes in an object that a write has stored or, if `is_gone`, removed. Returns no change if the
    /// value is no object.
    fn take_in_value(&mut self, object: Value, is_gone: bool) -> Vec<KindChange>;

    /// Removes the objects of a namespace. Returns their deletions.
    fn remove_namespace(&mut self, namespace: &str) -> Vec<KindChange>;
}

impl<K: JudgedKind> KnownObjectsOfAnyKind for KnownObjects<K> {
    fn take_in_value(&mut self, object: Value, is_gone: bool) -> Vec<KindChange> {
        match serde_json::from_value::<DeserializeGuard<K>>(object) {
            Ok(object) if is_gone => self.take_in(watcher::Event::Delete(object)),
            Ok(object) => self.take_in(watcher::Event::Apply(object)),
            Err(_) => Vec::new(),
        }
    }

    fn remove_namespace(&mut self, namespace: &str) -> Vec<KindChange> {
        let objects = self.objects.iter();
        let kept = objects.filter(|(name, _)| name.namespace != namespace);
        self.list = List {
            names: kept.map(|(name, _)| name.clone()).collect(),
            changes: Vec::new(),
            revision_before: self.revision,
        };
        self.finish_list()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;
    use watcher::Event;

    use super::*;

    type NodeEvent = Event<DeserializeGuard<Node>>;

    fn decode(object: Value) -> DeserializeGuard<Node> {
        serde_json::from_value(object).unwrap()
    }

    fn node(name: &str, version: &str) -> DeserializeGuard<Node> {
        decode(json!({"metadata": {"name": name, "resourceVersion": version}}))
    }

    fn undecodable_node(name: &str, version: &str) -> DeserializeGuard<Node> {
        decode(json!({"metadata": {"name": name, "resourceVersion": version}, "spec": 1}))
    }

    /// Describes the changes: `+` an object that is stored, `-` one that is deleted, `?` one that
    /// does not decode, and `(list)` after a change that a list shows.
    fn describe(known: &mut KnownObjects<Node>, events: Vec<NodeEvent>) -> Vec<String> {
        let changes = events.into_iter().flat_map(|event| known.take_in(event));
        changes
            .map(|change| {
                let (sign, name) = match &change.object {
                    ObjectVersion::Node(Version::Stored(node)) => ("+", node.name_any()),
                    ObjectVersion::Node(Version::Deleted(node)) => ("-", node.name_any()),
                    ObjectVersion::Unread(Version::Stored(unread)) => {
                        ("?", unread.name.to_string())
                    }
                    ObjectVersion::Unread(Version::Deleted(unread)) => {
                        ("-?", unread.name.to_string())
                    }
                    other => panic!("{other:?}"),
                };
                let listed = if change.is_listed { " (list)" } else { "" };
                format!("{sign}{name} {}{listed}", change.revision)
            })
            .collect()
    }

    #[test]
    fn list_after_a_gap_shows_only_changes_and_the_deletions_first() {
        let mut known = KnownObjects::new();
        let first = vec![
            Event::Init,
            Event::InitApply(node("a", "1")),
            Event::InitApply(node("c", "3")),
            Event::InitApply(node("b", "2")),
            Event::InitDone,
            Event::Delete(node("c", "4")),
        ];
        assert_eq!(
            describe(&mut known, first),
            ["+a 1 (list)", "+b 2 (list)", "+c 3 (list)", "-c 4"]
        );
        let second = vec![
            Event::Init,
            Event::InitApply(node("b", "2")),
            Event::InitApply(node("d", "7")),
            Event::InitDone,
            Event::Apply(node("b", "8")),
        ];
        assert_eq!(
            describe(&mut known, second),
            ["-a 4 (list)", "+d 7 (list)", "+b 8"]
        );
    }

    #[test]
    fn undecodable_object_hides_no_other_object() {
        let mut known = KnownObjects::new();
        let events = vec![
            Event::Init,
            Event::InitApply(undecodable_node("a", "1")),
            Event::InitApply(node("b", "2")),
            Event::InitDone,
            Event::Apply(undecodable_node("b", "3")),
            Event::Apply(node("a", "4")),
            // The last version that decoded is the one that is deleted.
            Event::Delete(undecodable_node("b", "5")),
            Event::Apply(undecodable_node("c", "6")),
            Event::Delete(undecodable_node("c", "7")),
        ];
        assert_eq!(
            describe(&mut known, events),
            [
                "?a 1 (list)",
                "+b 2 (list)",
                "?b 3",
                "+a 4",
                "-b 5",
                "?c 6",
                "-?c 7"
            ]
        );
    }

    #[test]
    fn list_without_an_undecodable_object_deletes_it() {
        let mut known = KnownObjects::new();
        let events = vec![
            Event::Apply(undecodable_node("a", "1")),
            Event::Init,
            Event::InitDone,
        ];
        assert_eq!(describe(&mut known, events), ["?a 1", "-?a 1 (list)"]);
    }
}
