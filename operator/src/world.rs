//! Everything that the operator knows, and who is told when it changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Resource;
use kube::core::DeserializeGuard;
use parking_lot::RwLock;
use tokio::sync::{Notify, mpsc};
use tracing::warn;
use trellis_api::names;
use trellis_api::{PodGroup, Queue, Reason, ResourceFlavor, TrainingJob};

use crate::controller::WorkQueue;
use crate::key::Key;
use crate::scheduling::Feed;
use crate::watch::{
    Change, GIVEN_UP_AFTER, LOST_AFTER, NodeHealth, PodIndex, Sink, SlimNamespace, SlimNode,
    SlimPod, SlimService, Store,
};

/// What the scheduler says about a gang that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Why it waits.
    pub reason: Reason,
    /// The same in words, with numbers.
    pub message: String,
}

/// A TrainingJob that does not decode: stored under another schema than ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// Its uid.
    pub uid: String,
    /// Its generation.
    pub generation: Option<i64>,
    /// Why it does not decode.
    pub error: String,
}

/// The cluster as we know it.
#[derive(Debug)]
pub struct World {
    /// TrainingJobs.
    pub jobs: Store<TrainingJob>,
    /// TrainingJobs that do not decode.
    pub undecodable: RwLock<BTreeMap<Key, Undecodable>>,
    /// Queues that do not decode, and why.
    pub undecodable_queues: RwLock<BTreeMap<String, String>>,
    /// PodGroups of our jobs.
    pub pod_groups: Store<PodGroup>,
    /// Queues.
    pub queues: Store<Queue>,
    /// ResourceFlavors.
    pub flavors: Store<ResourceFlavor>,
    /// Namespaces.
    pub namespaces: Store<SlimNamespace>,
    /// PriorityClasses.
    pub priority_classes: Store<PriorityClass>,
    /// Services: our own, and those that jobs name.
    pub services: Store<SlimService>,
    /// NetworkPolicies of our jobs.
    pub network_policies: Store<NetworkPolicy>,
    /// Core ResourceQuotas.
    pub resource_quotas: Store<ResourceQuota>,
    /// Nodes.
    pub nodes: Store<SlimNode>,
    /// Which nodes are lost.
    pub health: NodeHealth,
    /// Pods of our jobs.
    pub pods: PodIndex,
    /// Why gangs wait, by job.
    pub certificates: RwLock<BTreeMap<Key, Certificate>>,
    /// Jobs that are to be reconciled.
    pub work: WorkQueue,
    /// What the scheduler is to hear.
    pub feed: mpsc::UnboundedSender<Feed>,
    unsynced: AtomicUsize,
    synced: Notify,
}

/// How long the news of pods that start are gathered before their job is looked at.
const GATHER: Duration = Duration::from_millis(50);

/// Kinds that are watched: the count that [`World::synced`] waits for.
pub const WATCHES: usize = 11;

impl World {
    /// An empty world. What the scheduler is to hear comes out of the receiver.
    #[must_use]
    pub fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Feed>) {
        let (feed, heard) = mpsc::unbounded_channel();
        let world = Self {
            jobs: Store::default(),
            undecodable: RwLock::default(),
            undecodable_queues: RwLock::default(),
            pod_groups: Store::default(),
            queues: Store::default(),
            flavors: Store::default(),
            namespaces: Store::default(),
            priority_classes: Store::default(),
            services: Store::default(),
            network_policies: Store::default(),
            resource_quotas: Store::default(),
            nodes: Store::default(),
            health: NodeHealth::default(),
            pods: PodIndex::default(),
            certificates: RwLock::default(),
            work: WorkQueue::default(),
            feed,
            unsynced: AtomicUsize::new(WATCHES),
            synced: Notify::new(),
        };
        (Arc::new(world), heard)
    }

    /// Waits until every kind has been listed once.
    pub async fn synced(&self) {
        loop {
            let notified = self.synced.notified();
            if self.is_synced() {
                return;
            }
            notified.await;
        }
    }

    /// True once every kind has been listed.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.unsynced.load(Ordering::Acquire) == 0
    }

    /// Tells the scheduler. It is gone only when the process ends.
    pub fn tell(&self, feed: Feed) {
        let _ = self.feed.send(feed);
    }

    /// A job changed, or something that belongs to it: both look at it.
    pub fn touch(&self, job: Key) {
        self.tell(Feed::Look(job.clone()));
        self.work.add(job);
    }

    /// Every job is looked at again: something that any of them may depend on changed.
    fn touch_all(&self) {
        for job in self.jobs.all() {
            self.work.add(Key::of(job.meta()));
        }
    }

    fn one_synced(&self) {
        let before = self
            .unsynced
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        if before == Ok(1) {
            self.synced.notify_waiters();
        }
    }
}

/// A sink that marks its kind as synced after the first list.
#[derive(Debug)]
pub struct Watched {
    world: Arc<World>,
    listed: std::sync::atomic::AtomicBool,
}

impl Watched {
    /// A sink into the world.
    #[must_use]
    pub fn new(world: &Arc<World>) -> Arc<Self> {
        Arc::new(Self {
            world: world.clone(),
            listed: std::sync::atomic::AtomicBool::new(false),
        })
    }

    fn listed(&self) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            self.world.one_synced();
        }
    }
}

impl Sink<DeserializeGuard<TrainingJob>> for Watched {
    fn apply(&self, key: Key, object: DeserializeGuard<TrainingJob>) {
        match object.0 {
            Ok(job) => {
                self.world.undecodable.write().remove(&key);
                self.world.jobs.put(key.clone(), job);
            }
            Err(error) => {
                warn!(job = %key, %error, "a TrainingJob does not decode");
                let undecodable = Undecodable {
                    uid: error.metadata.uid.unwrap_or_default(),
                    generation: error.metadata.generation,
                    error: error.error,
                };
                self.world
                    .undecodable
                    .write()
                    .insert(key.clone(), undecodable);
                self.world.jobs.remove(&key);
            }
        }
        self.world.touch(key);
    }

    fn delete(&self, key: &Key) {
        self.world.undecodable.write().remove(key);
        self.world.jobs.remove(key);
        self.world.certificates.write().remove(key);
        self.world.touch(key.clone());
    }

    fn synced(&self) {
        self.listed();
    }
}

/// Kinds of which every object belongs to the job of the same name.
macro_rules! children {
    ($($kind:ty => $store:ident;)+) => {$(
        impl Sink<$kind> for Watched {
            fn apply(&self, key: Key, object: $kind) {
                self.world.$store.put(key.clone(), object);
                self.world.touch(key);
            }

            fn delete(&self, key: &Key) {
                self.world.$store.remove(key);
                self.world.touch(key.clone());
            }

            fn synced(&self) {
                self.listed();
            }
        }
    )+};
}

children! {
    NetworkPolicy => network_policies;
}

impl Sink<DeserializeGuard<PodGroup>> for Watched {
    fn apply(&self, key: Key, object: DeserializeGuard<PodGroup>) {
        match object.0 {
            Ok(group) => {
                self.world.pod_groups.put(key.clone(), group);
            }
            // Its job stands still until it is mended: nothing is decided on what we cannot read.
            Err(error) => {
                warn!(job = %key, %error, "a PodGroup does not decode");
                self.world.pod_groups.remove(&key);
            }
        }
        self.world.touch(key);
    }

    fn delete(&self, key: &Key) {
        self.world.pod_groups.remove(key);
        self.world.touch(key.clone());
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<SlimService> for Watched {
    fn apply(&self, key: Key, object: SlimService) {
        let ours = object.meta().labels.as_ref().is_some_and(|l| {
            l.get(names::MANAGED_BY)
                .is_some_and(|m| m == names::MANAGER)
        });
        self.world.services.put(key.clone(), object);
        if ours {
            self.world.touch(key);
        } else {
            // Jobs of the namespace may name it in their network rules.
            for job in self.world.jobs.all() {
                if job.metadata.namespace.as_deref() == Some(&*key.namespace)
                    && job.spec.network.is_some()
                {
                    self.world.work.add(Key::of(job.meta()));
                }
            }
        }
    }

    fn delete(&self, key: &Key) {
        self.world.services.remove(key);
        self.world.touch(key.clone());
    }

    fn synced(&self) {
        self.listed();
    }
}

/// Kinds that any job may depend on.
macro_rules! surroundings {
    ($($kind:ty => $store:ident;)+) => {$(
        impl Sink<$kind> for Watched {
            fn apply(&self, key: Key, object: $kind) {
                self.world.$store.put(key, object);
                self.world.touch_all();
            }

            fn delete(&self, key: &Key) {
                self.world.$store.remove(key);
                self.world.touch_all();
            }

            fn synced(&self) {
                self.listed();
            }
        }
    )+};
}

surroundings! {
    SlimNamespace => namespaces;
    PriorityClass => priority_classes;
}

impl Sink<DeserializeGuard<Queue>> for Watched {
    fn apply(&self, key: Key, object: DeserializeGuard<Queue>) {
        let object = match object.0 {
            Ok(queue) => {
                self.world.undecodable_queues.write().remove(&*key.name);
                queue
            }
            // It stops itself, and no other: nothing is started by a quota that we cannot read.
            Err(error) => {
                warn!(queue = %key, %error, "a Queue does not decode");
                self.world
                    .undecodable_queues
                    .write()
                    .insert(key.name.to_string(), error.error);
                self.delete_queue(&key);
                return;
            }
        };
        let before = self.world.queues.get(&key);
        let changed = before.is_none_or(|b| b.metadata.generation != object.metadata.generation);
        self.world.queues.put(key.clone(), object);
        if changed {
            self.world.tell(Feed::Queue(key.name));
            self.world.touch_all();
        }
    }

    fn delete(&self, key: &Key) {
        self.world.undecodable_queues.write().remove(&*key.name);
        self.delete_queue(key);
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<DeserializeGuard<ResourceFlavor>> for Watched {
    fn apply(&self, key: Key, object: DeserializeGuard<ResourceFlavor>) {
        match object.0 {
            Ok(flavor) => {
                self.world.flavors.put(key.clone(), flavor);
            }
            // Nothing is started with it until it is mended.
            Err(error) => {
                warn!(flavor = %key, %error, "a ResourceFlavor does not decode");
                self.world.flavors.remove(&key);
            }
        }
        self.world.tell(Feed::Flavor(key.name));
    }

    fn delete(&self, key: &Key) {
        self.world.flavors.remove(key);
        self.world.tell(Feed::Flavor(key.name.clone()));
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<ResourceQuota> for Watched {
    fn apply(&self, key: Key, object: ResourceQuota) {
        self.world.resource_quotas.put(key.clone(), object);
        self.world.tell(Feed::NamespaceQuota(key.namespace));
    }

    fn delete(&self, key: &Key) {
        self.world.resource_quotas.remove(key);
        self.world.tell(Feed::NamespaceQuota(key.namespace.clone()));
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Watched {
    fn delete_queue(&self, key: &Key) {
        self.world.queues.remove(key);
        self.world.tell(Feed::Queue(key.name.clone()));
        self.world.touch_all();
    }

    /// Jobs with pods on the node are looked at now, and again when the node
    /// counts as lost and when its pods are given up.
    fn node_changed(&self, node: &Key) {
        for delay in [Duration::ZERO, LOST_AFTER, GIVEN_UP_AFTER] {
            let world = self.world.clone();
            let node = node.clone();
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                for job in world.pods.jobs_on(&node.name) {
                    world.touch(job);
                }
            });
        }
    }
}

impl Sink<SlimNode> for Watched {
    fn apply(&self, key: Key, object: SlimNode) {
        let changed = self.world.health.apply(&key.name, object.is_ready());
        self.world.nodes.put(key.clone(), object);
        self.world.tell(Feed::Node(key.name.clone()));
        if changed && self.world.is_synced() {
            self.node_changed(&key);
        }
    }

    fn delete(&self, key: &Key) {
        self.world.health.delete(&key.name);
        self.world.nodes.remove(key);
        self.world.tell(Feed::Node(key.name.clone()));
        self.node_changed(key);
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<SlimPod> for Watched {
    fn apply(&self, key: Key, object: SlimPod) {
        let change = self.world.pods.apply(&key, &object);
        self.world.tell(Feed::pod(key, &object));
        match change {
            Some((job, Change::Turn)) => self.world.touch(job),
            // A gang of a thousand pods starts: a few looks, not a thousand.
            Some((job, change @ (Change::Progress | Change::New))) => {
                if change == Change::New {
                    self.world.tell(Feed::Look(job.clone()));
                }
                self.world.work.add_after(job, GATHER);
            }
            Some((_, Change::None)) | None => {}
        }
    }

    fn delete(&self, key: &Key) {
        self.world.tell(Feed::PodGone(key.clone()));
        if let Some(job) = self.world.pods.delete(key) {
            self.world.touch(job);
        }
    }

    fn synced(&self) {
        self.listed();
    }
}
