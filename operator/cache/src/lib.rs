//! The cluster as the watches show it: one store for each kind, and the queries on the stores.

mod external_pods;
mod external_secrets;
mod jobs;
mod nodes;
pub mod policy;
mod profiles;
mod quota_set;
mod storage;
pub mod watch;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::time::Instant;
use trellis_api::queue::DEFAULT_FLAVOR;
use trellis_api::{
    PodGroup, ResourceFlavor, ResourceFlavorSpec, Topology, TrainingJob, TrainingQueue,
};
use trellis_gang::key::Key;
use trellis_gang::observed::{
    AntiAffinityIndex, DaemonPodIndex, SlimClaim, SlimConfigMap, SlimDaemonSet, SlimDeviceClass,
    SlimNamespace, SlimNetworkPolicy, SlimNode, SlimService, SlimStorageClass, SlimVolume,
    UnhealthyRules, ZoneDisruption,
};

use crate::policy::{Freshness, Guards, PolicySet, Stamping};
use crate::watch::{ExternalPodIndex, NodeHealth, PodIndex, Pulse, Store};

pub use crate::watch::Undecodable;
pub use external_secrets::ExternalSecrets;
pub use jobs::CachedJob;
pub use profiles::Profiles;
pub use quota_set::QuotaSet;

/// Longest time without a sign of life from a watch until its data count as stale. A healthy watch
/// gives a sign at least every 160 s. This holds even without changes or bookmarks, and with the
/// slowest allowed answers.
const STALE_AFTER: Duration = Duration::from_secs(180);

/// The cluster's objects as the watches show them.
#[derive(Debug)]
pub struct Cache {
    /// TrainingJobs.
    pub jobs: Store<TrainingJob>,
    /// TrainingJobs that do not decode.
    pub undecodable_jobs: RwLock<BTreeMap<Key, Undecodable>>,
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
    /// Policies, which decide which jobs may run.
    pub policies: PolicySet,
    /// How recent the policies in this cache are.
    pub freshness: Freshness,
    /// QuotaPolicies, the current usage of their limits, and their ledgers.
    pub quotas: QuotaSet,
    /// Tells whether requester stamps are trusted.
    pub stamping: Stamping,
    /// The admission policies that keep users from writing data that only Trellis may write.
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
    /// Rules that declare a node unhealthy.
    pub unhealthy_rules: UnhealthyRules,
    /// Pace at which pods of unhealthy nodes are evicted.
    pub disruption: Mutex<ZoneDisruption>,
    /// Pods of our jobs.
    pub pods: PodIndex,
    /// Pods of other controllers that Trellis places.
    pub external_pods: ExternalPodIndex,
    /// Anti-affinity of other schedulers' pods, which keeps new pods out of topology domains.
    pub repulsions: RwLock<AntiAffinityIndex>,
    /// DaemonSets.
    pub daemon_sets: Store<SlimDaemonSet>,
    /// Nodes on which each DaemonSet has a pod.
    pub daemon_pods: RwLock<DaemonPodIndex>,
    /// PersistentVolumeClaims.
    pub claims: Store<SlimClaim>,
    /// PersistentVolumes.
    pub volumes: Store<SlimVolume>,
    /// StorageClasses.
    pub storage_classes: Store<SlimStorageClass>,
    /// Notified when a claim, a volume or a storage class changes.
    pub storage_changed: Notify,
    /// DeviceClasses. Empty if the cluster does not know the kind.
    pub device_classes: Store<SlimDeviceClass>,
    /// Health of the nodes.
    pub health: RwLock<NodeHealth>,
    /// Notified when a node's health may have changed.
    pub health_changed: Notify,
    /// Kinds that are not listed yet. Starts at 1, so that a cache without watches is not synced.
    unsynced_kinds: AtomicUsize,
    synced: Notify,
    /// The last sign of life of each watch, by the plural of its kind.
    pulses: RwLock<BTreeMap<String, Pulse>>,
}

impl Cache {
    /// Returns an empty cache that judges nodes by the rules `unhealthy`. It is synced after
    /// [`Cache::expect_kinds`], once all these kinds are listed.
    #[must_use]
    pub fn new(unhealthy: UnhealthyRules) -> Self {
        Self {
            jobs: Store::default(),
            undecodable_jobs: RwLock::default(),
            undecodable_queues: RwLock::default(),
            pod_groups: Store::default(),
            queues: Store::default(),
            flavors: Store::default(),
            topologies: Store::default(),
            profiles: Profiles::default(),
            namespaces: Store::default(),
            policies: PolicySet::default(),
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
            disruption: Mutex::new(ZoneDisruption::new(unhealthy.pace())),
            unhealthy_rules: unhealthy,
            pods: PodIndex::default(),
            external_pods: ExternalPodIndex::default(),
            repulsions: RwLock::default(),
            daemon_sets: Store::default(),
            daemon_pods: RwLock::default(),
            claims: Store::default(),
            volumes: Store::default(),
            storage_classes: Store::default(),
            storage_changed: Notify::new(),
            device_classes: Store::default(),
            health: RwLock::new(NodeHealth::new(Instant::now())),
            health_changed: Notify::new(),
            unsynced_kinds: AtomicUsize::new(1),
            synced: Notify::new(),
            pulses: RwLock::default(),
        }
    }

    /// Sets the number of kinds that [`Cache::wait_synced`] waits for. The caller sets it once,
    /// before the watches start. It does not include policies ([`PolicySet::wait_loaded`]).
    pub fn expect_kinds(&self, count: usize) {
        self.unsynced_kinds.store(count, Ordering::Release);
    }

    /// Waits until every kind has been listed once.
    pub async fn wait_synced(&self) {
        loop {
            let notified = self.synced.notified();
            if self.is_synced() {
                return;
            }
            notified.await;
        }
    }

    /// Returns true once every kind has been listed.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.unsynced_kinds.load(Ordering::Acquire) == 0
    }

    /// Returns the pulse of the watch of one kind, by its plural.
    #[must_use]
    pub fn pulse(&self, kind: &str) -> Pulse {
        let mut pulses = self.pulses.write();
        pulses.entry(kind.to_owned()).or_default().clone()
    }

    /// Returns the time since each watch last gave a sign of life, by the plural of its kind.
    #[must_use]
    pub fn watch_ages(&self) -> BTreeMap<String, Duration> {
        let pulses = self.pulses.read();
        let ages = pulses.iter();
        ages.map(|(kind, pulse)| (kind.clone(), pulse.age()))
            .collect()
    }

    /// Returns the kind whose watch has been silent for longest, if its data are too old to decide
    /// on.
    #[must_use]
    pub fn stale_watch(&self) -> Option<String> {
        let pulses = self.pulses.read();
        let ages = pulses.iter().map(|(kind, pulse)| (pulse.age(), kind));
        let (age, kind) = ages.max()?;
        (age >= STALE_AFTER).then(|| kind.clone())
    }

    /// Returns true if a flavor can be used: a ResourceFlavor has the name, or it is the default
    /// flavor, which needs none.
    #[must_use]
    pub fn has_flavor(&self, flavor: &str) -> bool {
        flavor == DEFAULT_FLAVOR || self.flavors.get(&Key::new("", flavor)).is_some()
    }

    /// Returns the specs of the flavors by name.
    #[must_use]
    pub fn flavor_specs(&self) -> BTreeMap<String, ResourceFlavorSpec> {
        let flavors = self.flavors.all().into_iter();
        flavors
            .filter_map(|flavor| Some((flavor.metadata.name.clone()?, flavor.spec.clone())))
            .collect()
    }

    /// Returns the labels of a namespace. None if the watch has not shown the namespace: then its
    /// labels are unknown.
    #[must_use]
    pub fn namespace_labels(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        let namespace = self.namespaces.get(&Key::new("", namespace))?;
        Some(namespace.metadata.labels.clone().unwrap_or_default())
    }

    /// Counts one more kind as listed. After the last kind, decides again whether the queue
    /// annotations of external pods are trusted.
    pub fn mark_kind_synced(&self) {
        let before = self
            .unsynced_kinds
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        if before == Ok(1) {
            self.recheck_external_pods();
            self.synced.notify_waiters();
        }
    }
}
