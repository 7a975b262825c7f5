//! The objects of a cluster that a plan depends on.
//! They come from files or from the API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::jiff::Timestamp;
use trellis_api::queue::QueueingStrategy;
use trellis_api::{
    PodGroup, QueueSpec, QuotaLedger, QuotaPolicy, ResourceFlavor, Topology, TrainingJob,
    TrainingJobSpec, TrainingQueue, names,
};
use trellis_cache::Profiles;
use trellis_gang::key::Key;
use trellis_gang::lookup;
use trellis_gang::observed::{
    SlimClaim, SlimDaemonSet, SlimDeviceClass, SlimNamespace, SlimNode, SlimPod, SlimStorageClass,
    SlimVolume,
};
use trellis_policies::quota::{QueueQuota, QuotaPolicies};

use super::policy_files::PolicyFiles;

/// The objects by name.
#[derive(Default)]
pub(crate) struct ClusterSnapshot {
    /// The time at which the cluster was read.
    /// None: the objects come from files.
    pub(crate) read_at: Option<Timestamp>,
    pub(crate) nodes: BTreeMap<String, SlimNode>,
    pub(crate) pods: BTreeMap<Key, SlimPod>,
    /// None: the input does not tell which queues exist.
    pub(crate) queues: Option<BTreeMap<String, TrainingQueue>>,
    pub(crate) policies: PolicyFiles,
    pub(crate) quota_policies: BTreeMap<String, QuotaPolicy>,
    pub(crate) quota_ledgers: BTreeMap<String, QuotaLedger>,
    pub(crate) flavors: BTreeMap<String, ResourceFlavor>,
    pub(crate) topologies: BTreeMap<String, Topology>,
    pub(crate) profiles: Profiles,
    pub(crate) pod_groups: BTreeMap<Key, PodGroup>,
    pub(crate) jobs: BTreeMap<Key, TrainingJob>,
    pub(crate) priority_classes: BTreeMap<String, PriorityClass>,
    pub(crate) namespaces: BTreeMap<String, SlimNamespace>,
    pub(crate) services: BTreeMap<Key, Service>,
    pub(crate) resource_quotas: BTreeMap<Key, ResourceQuota>,
    /// None: the input does not tell which claims exist.
    pub(crate) claims: Option<BTreeMap<Key, Arc<SlimClaim>>>,
    pub(crate) volumes: BTreeMap<String, Arc<SlimVolume>>,
    pub(crate) storage_classes: BTreeMap<String, Arc<SlimStorageClass>>,
    pub(crate) daemon_sets: BTreeMap<Key, SlimDaemonSet>,
    pub(crate) device_classes: BTreeMap<String, SlimDeviceClass>,
}

impl ClusterSnapshot {
    /// Adds the objects of another snapshot.
    /// An object of the other snapshot replaces one with the same name.
    pub(crate) fn overlay(&mut self, other: Self) {
        self.read_at = self.read_at.max(other.read_at);
        self.nodes.extend(other.nodes);
        self.pods.extend(other.pods);
        if let Some(queues) = other.queues {
            self.queues.get_or_insert_default().extend(queues);
        }
        self.policies.overlay(other.policies);
        self.quota_policies.extend(other.quota_policies);
        self.quota_ledgers.extend(other.quota_ledgers);
        self.flavors.extend(other.flavors);
        self.topologies.extend(other.topologies);
        self.profiles.overlay(other.profiles);
        self.pod_groups.extend(other.pod_groups);
        self.jobs.extend(other.jobs);
        self.priority_classes.extend(other.priority_classes);
        self.namespaces.extend(other.namespaces);
        self.services.extend(other.services);
        self.resource_quotas.extend(other.resource_quotas);
        if let Some(claims) = other.claims {
            self.claims.get_or_insert_default().extend(claims);
        }
        self.volumes.extend(other.volumes);
        self.storage_classes.extend(other.storage_classes);
        self.daemon_sets.extend(other.daemon_sets);
        self.device_classes.extend(other.device_classes);
    }

    /// Returns the queues.
    /// Without any queues in the input, it uses the queue of a fresh install.
    pub(crate) fn queues_or_default(&mut self) -> &BTreeMap<String, TrainingQueue> {
        self.queues.get_or_insert_with(|| {
            let all = Some(Default::default());
            let spec = QueueSpec {
                namespace_selector: all.clone(),
                default_for: all,
                ..QueueSpec::default()
            };
            let queue = TrainingQueue::new(names::DEFAULT_QUEUE, spec);
            BTreeMap::from([(names::DEFAULT_QUEUE.to_owned(), queue)])
        })
    }

    /// Loads the quota policies.
    pub(crate) fn to_quota_policies(&self) -> Arc<QuotaPolicies> {
        let queues = self.queues.iter().flatten();
        let queues = queues.map(|(name, queue)| (name.clone(), QueueQuota::from(&queue.spec)));
        let policies = QuotaPolicies::load(self.quota_policies.values(), []);
        Arc::new(policies.with_queues(queues.collect()))
    }

    /// Returns the labels of a namespace.
    /// The API server adds the label with its name.
    pub(crate) fn namespace_labels(&self, namespace: &str) -> BTreeMap<String, String> {
        let found = self.namespaces.get(namespace);
        let mut labels = found
            .and_then(|n| n.metadata.labels.clone())
            .unwrap_or_default();
        labels.insert(names::NAMESPACE_NAME.to_owned(), namespace.to_owned());
        labels
    }

    /// Returns the Services of a namespace by name.
    pub(crate) fn services_in(&self, namespace: &str) -> BTreeMap<String, Service> {
        self.services
            .iter()
            .filter(|(key, _)| &*key.namespace == namespace)
            .map(|(key, service)| (key.name.to_string(), service.clone()))
            .collect()
    }

    /// Returns true if a queue starts its jobs strictly in order.
    pub(crate) fn is_strict_queue(&self, queue: &str) -> bool {
        let queue = self.queues.as_ref().and_then(|all| all.get(queue));
        queue.is_some_and(|q| q.spec.queueing_strategy == Some(QueueingStrategy::StrictFifo))
    }

    /// Returns true if the job's PriorityClass forbids it to preempt other jobs.
    pub(crate) fn never_preempts(&self, job: &TrainingJobSpec) -> bool {
        let classes = &self.priority_classes;
        lookup::job_never_preempts(job, |name| classes.get(name), || classes.values().collect())
    }
}
