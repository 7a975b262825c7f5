//! Everything that the operator knows, and who is told when it changes.

mod children;
mod daemon_sets;
mod device_classes;
mod external_pods;
mod external_secrets;
mod jobs;
mod nodes;
mod policies;
mod profiles;
mod stamping;
mod storage;
mod surroundings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Resource;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::time::Instant;
use trellis_api::queue::DEFAULT_FLAVOR;
use trellis_api::{PodGroup, ResourceFlavor, Topology, TrainingJob, TrainingQueue};

use crate::controller::WorkQueue;
use crate::key::Key;
use crate::policy::{Freshness, Guards, PolicySet, Stamping, Turns};
use crate::quota::QuotaSet;
use crate::scheduling::{self, Certificate, Feed, Heard, Tell, external};
use crate::telemetry::Counts;
use crate::watch::{
    DaemonPods, Disruption, ExternalPodIndex, NodeHealth, PodIndex, Pulse, Repulsions, SlimClaim,
    SlimConfigMap, SlimDaemonSet, SlimDeviceClass, SlimNamespace, SlimNetworkPolicy, SlimNode,
    SlimService, SlimStorageClass, SlimVolume, Store, Unhealthy,
};

pub use crate::watch::Undecodable;
pub use external_secrets::ExternalSecrets;
pub use jobs::Seen;
pub use profiles::Profiles;

/// How old what is known of a kind may be. A watch that is well gives a sign of
/// life each 160 s even where nothing is written, there are no bookmarks, and
/// each answer comes at the last moment.
const UNSEEN: Duration = Duration::from_secs(180);

/// The cluster as we know it.
#[derive(Debug)]
pub struct World {
    /// TrainingJobs.
    pub jobs: Store<TrainingJob>,
    /// TrainingJobs that do not decode.
    pub undecodable: RwLock<BTreeMap<Key, Undecodable>>,
    /// Queues that do not decode.
    pub undecodable_queues: RwLock<BTreeMap<String, Undecodable>>,
    /// PodGroups of our jobs.
    pub pod_groups: Store<PodGroup>,
    /// Queues.
    pub queues: Store<TrainingQueue>,
    /// ResourceFlavors.
    pub flavors: Store<ResourceFlavor>,
    /// Topologies.
    pub topologies: Store<Topology>,
    /// RuntimeProfiles.
    pub profiles: Profiles,
    /// Namespaces.
    pub namespaces: Store<SlimNamespace>,
    /// Policies: who may run what.
    pub policies: PolicySet,
    /// Turns at evaluating them.
    pub turns: Turns,
    /// How new all policies are.
    pub freshness: Freshness,
    /// QuotaPolicies, how much of it, and their ledgers.
    pub quotas: QuotaSet,
    /// Whether stamps of who asks can be believed.
    pub stamping: Stamping,
    /// The admission policies that keep users from what is Trellis' own.
    pub guards: Guards,
    /// PriorityClasses.
    pub priority_classes: Store<PriorityClass>,
    /// Services: our own, and those that jobs name.
    pub services: Store<SlimService>,
    /// NetworkPolicies of our jobs.
    pub network_policies: Store<SlimNetworkPolicy>,
    /// ConfigMaps of our jobs.
    pub config_maps: Store<SlimConfigMap>,
    /// ExternalSecrets of our jobs.
    pub external_secrets: ExternalSecrets,
    /// Core ResourceQuotas.
    pub resource_quotas: Store<ResourceQuota>,
    /// Nodes.
    pub nodes: Store<SlimNode>,
    /// What makes a node unfit for new pods.
    pub unhealthy: Unhealthy,
    /// Which unhealthy nodes are left, and when.
    disruption: Mutex<Disruption>,
    /// Pods of our jobs.
    pub pods: PodIndex,
    /// Pods that others have made and that are to be placed by Trellis.
    pub external_pods: ExternalPodIndex,
    /// What anti-affinity of pods that are not ours keeps pods out of.
    pub repulsions: Repulsions,
    /// DaemonSets.
    pub daemon_sets: Store<SlimDaemonSet>,
    /// Where they have a pod.
    pub daemon_pods: DaemonPods,
    /// PersistentVolumeClaims.
    pub claims: Store<SlimClaim>,
    /// PersistentVolumes.
    pub volumes: Store<SlimVolume>,
    /// StorageClasses.
    pub storage_classes: Store<SlimStorageClass>,
    /// A claim, a volume or a class has changed.
    storage_changed: Notify,
    /// DeviceClasses; none where the cluster does not know the kind.
    pub device_classes: Store<SlimDeviceClass>,
    /// Why gangs wait, by job.
    pub certificates: RwLock<BTreeMap<Key, Certificate>>,
    /// Jobs that are to be reconciled.
    pub work: WorkQueue,
    /// What happens, counted.
    pub counts: Counts,
    /// When the scheduler last began to look at its news.
    pub scheduler: Pulse,
    /// What the scheduler is to hear.
    pub feed: Tell,
    /// Which nodes are lost.
    health: RwLock<NodeHealth>,
    /// A node's health may have changed.
    health_changed: Notify,
    unsynced: AtomicUsize,
    synced: Notify,
    /// When each watch last showed that it lives.
    pulses: RwLock<BTreeMap<String, Pulse>>,
}

/// Kinds that are watched: the count that [`World::synced`] waits for. Policies are waited for
/// apart ([`PolicySet::loaded`]).
pub const WATCHES: usize = 26;

impl World {
    /// An empty world. What the scheduler is to hear comes out beside it.
    #[must_use]
    pub fn new() -> (Arc<Self>, Heard) {
        Self::with(Unhealthy::default())
    }

    /// An empty world in which nodes are unhealthy by these rules.
    #[must_use]
    pub fn with(unhealthy: Unhealthy) -> (Arc<Self>, Heard) {
        Self::of(unhealthy, WATCHES)
    }

    /// An empty world of which so many kinds are watched, beside policies.
    #[must_use]
    pub fn of(unhealthy: Unhealthy, watches: usize) -> (Arc<Self>, Heard) {
        let (feed, heard) = scheduling::channel();
        let world = Self {
            jobs: Store::default(),
            undecodable: RwLock::default(),
            undecodable_queues: RwLock::default(),
            pod_groups: Store::default(),
            queues: Store::default(),
            flavors: Store::default(),
            topologies: Store::default(),
            profiles: Profiles::default(),
            namespaces: Store::default(),
            policies: PolicySet::default(),
            turns: Turns::default(),
            freshness: Freshness::default(),
            quotas: QuotaSet::default(),
            stamping: Stamping::default(),
            guards: Guards::default(),
            priority_classes: Store::default(),
            services: Store::default(),
            network_policies: Store::default(),
            config_maps: Store::default(),
            external_secrets: ExternalSecrets::default(),
            resource_quotas: Store::default(),
            nodes: Store::default(),
            disruption: Mutex::new(Disruption::new(unhealthy.pace())),
            unhealthy,
            pods: PodIndex::default(),
            external_pods: ExternalPodIndex::default(),
            repulsions: Repulsions::default(),
            daemon_sets: Store::default(),
            daemon_pods: DaemonPods::default(),
            claims: Store::default(),
            volumes: Store::default(),
            storage_classes: Store::default(),
            storage_changed: Notify::new(),
            device_classes: Store::default(),
            certificates: RwLock::default(),
            work: WorkQueue::default(),
            counts: Counts::default(),
            scheduler: Pulse::default(),
            feed,
            health: RwLock::new(NodeHealth::new(Instant::now())),
            health_changed: Notify::new(),
            unsynced: AtomicUsize::new(watches),
            synced: Notify::new(),
            pulses: RwLock::default(),
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

    /// The pulse of the watch of one kind, by its plural.
    #[must_use]
    pub fn pulse(&self, kind: &str) -> Pulse {
        let mut pulses = self.pulses.write();
        pulses.entry(kind.to_owned()).or_default().clone()
    }

    /// How long ago each watch last showed that it lives, by the plural of what it watches.
    #[must_use]
    pub fn watch_ages(&self) -> BTreeMap<String, Duration> {
        let pulses = self.pulses.read();
        let ages = pulses.iter();
        ages.map(|(kind, pulse)| (kind.clone(), pulse.age()))
            .collect()
    }

    /// The kind of which we have been told nothing for longest, if that is for so
    /// long that nothing may be decided on what we know of it.
    #[must_use]
    pub fn unseen(&self) -> Option<String> {
        let pulses = self.pulses.read();
        let ages = pulses.iter().map(|(kind, pulse)| (pulse.age(), kind));
        let (age, kind) = ages.max()?;
        (age >= UNSEEN).then(|| kind.clone())
    }

    /// True if a flavor can be used: a ResourceFlavor has the name, or it is the default flavor,
    /// which needs none.
    #[must_use]
    pub fn has_flavor(&self, flavor: &str) -> bool {
        flavor == DEFAULT_FLAVOR || self.flavors.get(&Key::new("", flavor)).is_some()
    }

    /// Labels of a namespace. None: the watch has not shown it, and an absent label says nothing.
    #[must_use]
    pub fn namespace_labels(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        let namespace = self.namespaces.get(&Key::new("", namespace))?;
        Some(namespace.metadata.labels.clone().unwrap_or_default())
    }

    /// Tells the scheduler.
    pub fn tell(&self, feed: Feed) {
        self.feed.send(feed);
    }

    /// A job changed, or something that belongs to it: both look at it.
    ///
    /// Of external pods the scheduler alone does: they have no job.
    pub fn touch(&self, job: Key) {
        self.tell(Feed::Look(job.clone()));
        if !external::is_external(&job) {
            self.work.add(job);
        }
    }

    /// The jobs of which this holds are looked at again: something that they
    /// depend on changed. Before everything is listed nobody has looked at any.
    fn look_again_at(&self, which: impl Fn(&TrainingJob) -> bool) {
        if !self.is_synced() {
            return;
        }
        for job in self.jobs.all() {
            if which(&job) {
                self.work.add(Key::of(job.meta()));
            }
        }
    }

    fn one_synced(&self) {
        let before = self
            .unsynced
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        if before == Ok(1) {
            self.settle_external_pods();
            self.synced.notify_waiters();
        }
    }
}

/// A sink that marks its kind as synced after the first list.
#[derive(Debug)]
pub struct Watched {
    world: Arc<World>,
    listed: AtomicBool,
}

impl Watched {
    /// A sink into the world.
    #[must_use]
    pub fn new(world: &Arc<World>) -> Arc<Self> {
        Arc::new(Self {
            world: world.clone(),
            listed: AtomicBool::new(false),
        })
    }

    fn listed(&self) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            self.world.one_synced();
        }
    }
}
