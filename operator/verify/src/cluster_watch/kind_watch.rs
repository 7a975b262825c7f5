//! One watch for each kind that the rules read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream, SelectAll};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use trellis_api::{PodGroup, TrainingJob, TrainingQueue};

use super::slim::Slim;
use crate::{ObjectName, ObjectVersion, Version};

/// Name of the operator's Lease.
pub(super) const LEASE_NAME: &str = "trellis-operator";

/// The kinds that [`ClusterWatch`](crate::ClusterWatch) gets, lists and watches, in the plural.
pub const WATCHED_KINDS: [&str; 7] = [
    "trainingjobs",
    "podgroups",
    "trainingqueues",
    "pods",
    "nodes",
    "namespaces",
    "leases",
];

/// News of a watch.
pub(super) enum WatchEvent {
    /// An object was created, changed or deleted.
    Change {
        kind: &'static str,
        revision: u64,
        object: ObjectVersion,
    },
    /// All objects of the kind are listed.
    Listed { kind: &'static str },
    /// The watch is broken. It starts again.
    Broken {
        kind: &'static str,
        error: Box<watcher::Error>,
    },
}

/// Starts all watches.
pub(super) fn all(
    client: &Client,
    operator_namespace: &str,
) -> SelectAll<BoxStream<'static, WatchEvent>> {
    let lease = watcher::Config::default().fields(&format!("metadata.name={LEASE_NAME}"));
    let every = watcher::Config::default;
    let [jobs, groups, queues, pods, nodes, namespaces, leases] = WATCHED_KINDS;
    stream::select_all([
        watch::<TrainingJob>(jobs, Api::all(client.clone()), every(), ObjectVersion::Job),
        watch::<PodGroup>(
            groups,
            Api::all(client.clone()),
            every(),
            ObjectVersion::Group,
        ),
        watch::<TrainingQueue>(
            queues,
            Api::all(client.clone()),
            every(),
            ObjectVersion::Queue,
        ),
        watch::<Pod>(pods, Api::all(client.clone()), every(), ObjectVersion::Pod),
        watch::<Node>(
            nodes,
            Api::all(client.clone()),
            every(),
            ObjectVersion::Node,
        ),
        watch::<Namespace>(
            namespaces,
            Api::all(client.clone()),
            every(),
            ObjectVersion::Namespace,
        ),
        watch::<Lease>(
            leases,
            Api::namespaced(client.clone(), operator_namespace),
            lease,
            ObjectVersion::Lease,
        ),
    ])
}

fn watch<K>(
    kind: &'static str,
    api: Api<K>,
    config: watcher::Config,
    wrap: fn(Version<K>) -> ObjectVersion,
) -> BoxStream<'static, WatchEvent>
where
    K: Resource<DynamicType = ()> + Slim + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let mut known = KnownObjects::default();
    let events = watcher(api, config).default_backoff();
    let events = events.flat_map(move |event| {
        let told: Vec<WatchEvent> = match event {
            Ok(event) => {
                let is_listed = matches!(event, watcher::Event::InitDone);
                let changes = known.take_in(event).into_iter();
                let changes = changes.map(|(revision, version)| WatchEvent::Change {
                    kind,
                    revision,
                    object: wrap(version),
                });
                let listed = is_listed.then_some(WatchEvent::Listed { kind });
                changes.chain(listed).collect()
            }
            Err(error) => vec![WatchEvent::Broken {
                kind,
                error: Box::new(error),
            }],
        };
        stream::iter(told)
    });
    events.boxed()
}

/// The objects of one kind that the watch has shown. A list shows no deletions, so they follow from
/// the objects that it does not have.
struct KnownObjects<K> {
    objects: BTreeMap<ObjectName, Arc<K>>,
    /// Names in the list that is being read.
    listed: BTreeSet<ObjectName>,
    /// The greatest revision so far.
    revision: u64,
}

impl<K> Default for KnownObjects<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            listed: BTreeSet::new(),
            revision: 0,
        }
    }
}

impl<K: Resource<DynamicType = ()> + Slim> KnownObjects<K> {
    fn take_in(&mut self, event: watcher::Event<K>) -> Vec<(u64, Version<K>)> {
        match event {
            watcher::Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                self.listed.insert(ObjectName::from_metadata(object.meta()));
                self.store(object).into_iter().collect()
            }
            watcher::Event::InitDone => self.remove_unlisted(),
            watcher::Event::Apply(object) => self.store(object).into_iter().collect(),
            watcher::Event::Delete(mut object) => {
                let revision = self.advance(&object);
                object.slim();
                self.objects
                    .remove(&ObjectName::from_metadata(object.meta()));
                vec![(revision, Version::Deleted(Arc::new(object)))]
            }
        }
    }

    /// Stores an object, unless it has not changed since a watch showed it.
    fn store(&mut self, mut object: K) -> Option<(u64, Version<K>)> {
        let name = ObjectName::from_metadata(object.meta());
        let known = self.objects.get(&name);
        if known.is_some_and(|known| known.resource_version() == object.resource_version()) {
            return None;
        }
        let revision = self.advance(&object);
        object.slim();
        let object = Arc::new(object);
        self.objects.insert(name, Arc::clone(&object));
        Some((revision, Version::Stored(object)))
    }

    fn remove_unlisted(&mut self) -> Vec<(u64, Version<K>)> {
        let listed = std::mem::take(&mut self.listed);
        let gone = self
            .objects
            .extract_if(.., |name, _| !listed.contains(name));
        gone.map(|(_, object)| (self.revision, Version::Deleted(object)))
            .collect()
    }

    /// Returns the revision of an object.
    fn advance(&mut self, object: &K) -> u64 {
        let version = object.resource_version();
        // The API conventions allow clients to compare versions as numbers since KEP-5504.
        let revision = version.and_then(|version| version.parse().ok());
        let revision = revision.unwrap_or(self.revision);
        self.revision = self.revision.max(revision);
        revision
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watcher::Event;

    use super::*;

    fn node(name: &str, version: &str) -> Node {
        serde_json::from_value(json!({"metadata": {"name": name, "resourceVersion": version}}))
            .unwrap()
    }

    /// Describes what the events tell: `+` an object that is stored, `-` one that is deleted.
    fn tell(known: &mut KnownObjects<Node>, events: Vec<Event<Node>>) -> Vec<String> {
        let told = events.into_iter().flat_map(|event| known.take_in(event));
        told.map(|(revision, version)| {
            let sign = if version.stored().is_some() { '+' } else { '-' };
            format!("{sign}{} {revision}", version.object().name_any())
        })
        .collect()
    }

    #[test]
    fn list_after_a_gap_tells_only_changes() {
        let mut known = KnownObjects::default();
        let first = vec![
            Event::Init,
            Event::InitApply(node("a", "1")),
            Event::InitApply(node("b", "2")),
            Event::InitApply(node("c", "3")),
            Event::InitDone,
            Event::Delete(node("c", "4")),
        ];
        assert_eq!(tell(&mut known, first), ["+a 1", "+b 2", "+c 3", "-c 4"]);
        let second = vec![
            Event::Init,
            Event::InitApply(node("b", "2")),
            Event::InitApply(node("d", "7")),
            Event::InitDone,
            Event::Apply(node("b", "8")),
        ];
        assert_eq!(tell(&mut known, second), ["+d 7", "-a 7", "+b 8"]);
    }
}
