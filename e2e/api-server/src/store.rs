//! The objects, their revisions and the history of all changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::history::HistoryEntry;
use crate::kind::{Kind, KindRef};
use crate::object::Object;

/// Position of a kind in the table of kinds.
pub(crate) type KindId = usize;

/// The user of writes that follow from other writes.
const SERVER: &str = "system:apiserver";

/// All state of a server, as etcd holds it.
#[derive(Debug)]
pub(crate) struct Store {
    kinds: Vec<Arc<Kind>>,
    by_path: BTreeMap<(String, String, String), KindId>,
    /// The objects of each kind. The keys are those of etcd, because lists have their order.
    objects: Vec<BTreeMap<String, Arc<Object>>>,
    history: Vec<HistoryEntry>,
    /// Positions in the history that belong to the present: all but those that a restore undid.
    timelines: Vec<Vec<usize>>,
    revision: u64,
    compacted: u64,
    /// Number of restores.
    epoch: u64,
    counter: u64,
    server: Arc<str>,
}

/// Returns the key of an object among those of its kind. etcd's order compares `/` with the
/// characters of names.
pub(crate) fn object_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

impl Store {
    pub(crate) fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        let kinds: Vec<Arc<Kind>> = kinds.into_iter().map(Arc::new).collect();
        let path = |kind: &Kind| {
            let [group, version, plural] = [&kind.group, &kind.version, &kind.plural];
            (group.clone(), version.clone(), plural.clone())
        };
        Self {
            by_path: kinds.iter().map(|kind| path(kind)).zip(0..).collect(),
            objects: vec![BTreeMap::new(); kinds.len()],
            timelines: vec![Vec::new(); kinds.len()],
            kinds,
            history: Vec::new(),
            // etcd begins with 1.
            revision: 1,
            compacted: 0,
            epoch: 0,
            counter: 0,
            server: SERVER.into(),
        }
    }

    pub(crate) fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    pub(crate) fn kind(&self, id: KindId) -> &Arc<Kind> {
        &self.kinds[id]
    }

    pub(crate) fn kind_at(&self, group: &str, version: &str, plural: &str) -> Option<KindId> {
        let path = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.by_path.get(&path).copied()
    }

    pub(crate) fn find_kind(&self, group: &str, plural: &str) -> Option<KindId> {
        let is_it = |kind: &Arc<Kind>| kind.group == group && kind.plural == plural;
        self.kinds.iter().position(is_it)
    }

    pub(crate) fn find(&self, kind: &KindRef) -> Option<KindId> {
        self.find_kind(&kind.group, &kind.plural)
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn history(&self) -> &[HistoryEntry] {
        &self.history
    }

    pub(crate) fn server_user(&self) -> Arc<str> {
        self.server.clone()
    }

    /// Returns a number that no earlier call returned.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(crate) fn get(&self, kind: KindId, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.objects[kind].get(&object_key(namespace, name))
    }

    /// Returns the objects of a kind from a key on.
    pub(crate) fn objects(&self, kind: KindId) -> &BTreeMap<String, Arc<Object>> {
        &self.objects[kind]
    }

    /// Returns the objects of a namespace in the order of their keys.
    pub(crate) fn in_namespace<'s>(
        &'s self,
        kind: KindId,
        namespace: &str,
    ) -> impl Iterator<Item = &'s Arc<Object>> + use<'s> {
        let range = key_range(namespace);
        self.objects[kind].range(range).map(|(_, object)| object)
    }

    /// Returns the events of a kind: positions in the history.
    pub(crate) fn timeline(&self, kind: KindId) -> &[usize] {
        &self.timelines[kind]
    }

    pub(crate) fn entry(&self, position: usize) -> &HistoryEntry {
        &self.history[position]
    }

    /// Stores a new version of an object, or its deletion, at the next revision.
    pub(crate) fn commit(
        &mut self,
        kind: KindId,
        key: String,
        value: Option<Value>,
        user: Arc<str>,
        now: Timestamp,
    ) -> Option<Arc<Object>> {
        self.commit_at(self.revision + 1, (kind, key), value, user, now)
    }

    /// Stores a version of an object, or its deletion, at a revision that may be an earlier one.
    pub(crate) fn commit_at(
        &mut self,
        revision: u64,
        (kind, key): (KindId, String),
        value: Option<Value>,
        user: Arc<str>,
        now: Timestamp,
    ) -> Option<Arc<Object>> {
        self.revision = self.revision.max(revision);
        let kind_of = &self.kinds[kind];
        let after = value.map(|value| Arc::new(Object::new(kind_of.clone(), value, revision)));
        let before = match &after {
            Some(after) => self.objects[kind].insert(key, after.clone()),
            None => self.objects[kind].remove(&key),
        };
        self.timelines[kind].push(self.history.len());
        let entry = HistoryEntry::new(revision, now, user, before, after.clone());
        self.history.push(entry);
        after
    }

    /// Returns the objects of a kind as of an earlier revision.
    pub(crate) fn snapshot(&self, kind: KindId, revision: u64) -> BTreeMap<String, Arc<Object>> {
        let mut objects = self.objects[kind].clone();
        for position in self.timelines[kind].iter().rev() {
            let entry = &self.history[*position];
            if entry.revision <= revision {
                break;
            }
            let object = entry.object();
            let key = object_key(object.namespace(), object.name());
            match &entry.before {
                Some(before) => objects.insert(key, before.clone()),
                None => objects.remove(&key),
            };
        }
        objects
    }

    /// Returns true if a kind has changed after a revision.
    pub(crate) fn has_changed_since(&self, kind: KindId, revision: u64) -> bool {
        let last = self.timelines[kind].last();
        last.is_some_and(|last| self.history[*last].revision > revision)
    }

    pub(crate) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
    }

    /// Puts the state of an earlier revision back.
    pub(crate) fn restore(&mut self, revision: u64) {
        let revision = revision.min(self.revision);
        let time = self.history.last().map(|entry| entry.time);
        for kind in 0..self.kinds.len() {
            let restored = self.snapshot(kind, revision);
            let current = std::mem::replace(&mut self.objects[kind], restored.clone());
            let keys: BTreeSet<&String> = current.keys().chain(restored.keys()).collect();
            for key in keys {
                let (before, after) = (current.get(key).cloned(), restored.get(key).cloned());
                if before.as_ref().map(|o| o.revision()) != after.as_ref().map(|o| o.revision()) {
                    let time = time.expect("objects differ only after changes");
                    let user = self.server.clone();
                    let mut entry = HistoryEntry::new(revision, time, user, before, after);
                    entry.restored = true;
                    self.history.push(entry);
                }
            }
            let history = &self.history;
            let is_past = |position: &usize| history[*position].revision <= revision;
            let kept = self.timelines[kind].partition_point(is_past);
            self.timelines[kind].truncate(kept);
        }
        self.revision = revision;
        self.compacted = self.compacted.min(revision);
        self.epoch += 1;
    }
}

/// Returns the keys of a namespace. Empty: all keys.
pub(crate) fn key_range(namespace: &str) -> (std::ops::Bound<String>, std::ops::Bound<String>) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    if namespace.is_empty() {
        return (Unbounded, Unbounded);
    }
    // `0` follows `/`.
    (
        Included(format!("{namespace}/")),
        Excluded(format!("{namespace}0")),
    )
}
