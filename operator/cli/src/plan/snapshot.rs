//! The objects of a cluster that a plan depends on.
//! They come from files or from the API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use trellis_api::document::{Document, Problems};
use trellis_api::{
    ClusterJobPolicy, JobPolicy, PodGroup, QueueSpec, QuotaLedger, QuotaPolicy, ResourceFlavor,
    RuntimeProfile, Topology, TrainingJob, TrainingQueue, names, owner,
};
use trellis_cache::Profiles;
use trellis_gang::key::Key;
use trellis_gang::observed::{
    SlimClaim, SlimDaemonSet, SlimDeviceClass, SlimNamespace, SlimNode, SlimPod, SlimStorageClass,
    SlimVolume,
};
use trellis_policies::cedar::PolicyObject;
use trellis_policies::quota::{QueueQuota, QuotaPolicies};

use super::policy_files::PolicyFiles;
use crate::node_defaults;

/// The kinds that a plan depends on.
/// Each has its version, its kind and its resource name for `kubectl get`. A test compares them
/// with the documentation.
const READ_KINDS: [(&str, &str, &str); 21] = [
    ("v1", "Node", "nodes"),
    ("v1", "Pod", "pods"),
    ("v1", "Namespace", "namespaces"),
    ("v1", "Service", "services"),
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"),
    (
        "trellis.dev/v1alpha1",
        "TrainingQueue",
        "trainingqueues.trellis.dev",
    ),
    (
        "trellis.dev/v1alpha1",
        "ResourceFlavor",
        "resourceflavors.trellis.dev",
    ),
    ("v1", "ResourceQuota", "resourcequotas"),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("v1", "PersistentVolume", "persistentvolumes"),
    ("storage.k8s.io/v1", "StorageClass", "storageclasses"),
    ("apps/v1", "DaemonSet", "daemonsets"),
    ("resource.k8s.io/v1", "DeviceClass", "deviceclasses"),
    ("trellis.dev/v1alpha1", "Topology", "topologies.trellis.dev"),
    (
        "trellis.dev/v1alpha1",
        "RuntimeProfile",
        "runtimeprofiles.trellis.dev",
    ),
    (
        "trellis.dev/v1alpha1",
        "ClusterJobPolicy",
        "clusterjobpolicies.trellis.dev",
    ),
    (
        "trellis.dev/v1alpha1",
        "JobPolicy",
        "jobpolicies.trellis.dev",
    ),
    (
        "trellis.dev/v1alpha1",
        "QuotaPolicy",
        "quotapolicies.trellis.dev",
    ),
    (
        "trellis.dev/v1alpha1",
        "QuotaLedger",
        "quotaledgers.trellis.dev",
    ),
    ("trellis.dev/v1alpha1", "PodGroup", "podgroups.trellis.dev"),
    (
        "trellis.dev/v1alpha1",
        "TrainingJob",
        "trainingjobs.trellis.dev",
    ),
];

/// Returns the resource names of all kinds that are read.
/// Roles and `kubectl get` use the same names.
pub(super) fn resource_list() -> String {
    READ_KINDS.map(|(_, _, resource)| resource).join(", ")
}

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

fn object_name(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

/// Returns the key of an object of a file. The default namespace is `default`.
fn object_key(meta: &ObjectMeta) -> Key {
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    Key::new(namespace, meta.name.as_deref().unwrap_or_default())
}

impl ClusterSnapshot {
    /// Adds an object of a file. Returns false if no plan depends on its kind.
    pub(crate) fn add_document(&mut self, document: &Document) -> Result<bool, Problems> {
        match (document.api_version.as_str(), document.kind.as_str()) {
            ("v1", "Node") => {
                let mut node = document.decode()?;
                node_defaults::apply_node_defaults(document, &mut node)?;
                self.add_node(node);
            }
            ("v1", "Pod") => self.add_pod(document.decode()?),
            ("trellis.dev/v1alpha1", "TrainingQueue") => self.add_queue(document.decode_valid()?),
            ("trellis.dev/v1alpha1", "ResourceFlavor") => self.add_flavor(document.decode_valid()?),
            ("trellis.dev/v1alpha1", "Topology") => self.add_topology(document.decode_valid()?),
            ("trellis.dev/v1alpha1", "RuntimeProfile") => {
                self.add_profile(document.decode_valid()?)
            }
            ("trellis.dev/v1alpha1", "ClusterJobPolicy") => {
                let object: ClusterJobPolicy = document.decode_valid()?;
                self.policies.add(PolicyObject::from(&object));
            }
            ("trellis.dev/v1alpha1", "JobPolicy") => {
                let mut object: JobPolicy = document.decode_valid()?;
                object.metadata.namespace =
                    Some(object_key(&object.metadata).namespace.to_string());
                self.policies.add(PolicyObject::from(&object));
            }
            ("trellis.dev/v1alpha1", "QuotaPolicy") => {
                self.add_quota_policy(document.decode_valid()?)
            }
            ("trellis.dev/v1alpha1", "QuotaLedger") => self.add_quota_ledger(document.decode()?),
            ("trellis.dev/v1alpha1", "PodGroup") => self.add_pod_group(document.decode()?),
            ("trellis.dev/v1alpha1", "TrainingJob") => self.add_job(document.decode()?),
            ("scheduling.k8s.io/v1", "PriorityClass") => {
                self.add_priority_class(document.decode()?)
            }
            ("v1", "Namespace") => self.add_namespace(document.decode()?),
            ("v1", "Service") => self.add_service(document.decode()?),
            ("v1", "ResourceQuota") => self.add_resource_quota(document.decode()?),
            ("v1", "PersistentVolumeClaim") => self.add_claim(document.decode()?),
            ("v1", "PersistentVolume") => self.add_volume(document.decode()?),
            ("storage.k8s.io/v1", "StorageClass") => self.add_storage_class(document.decode()?),
            ("apps/v1", "DaemonSet") => self.add_daemon_set(document.decode()?),
            ("resource.k8s.io/v1", "DeviceClass") => self.add_device_class(document.decode()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(crate) fn add_node(&mut self, node: SlimNode) {
        self.nodes.insert(object_name(&node.metadata), node);
    }

    pub(crate) fn add_pod(&mut self, pod: SlimPod) {
        self.pods.insert(object_key(&pod.metadata), pod);
    }

    pub(crate) fn add_queue(&mut self, queue: TrainingQueue) {
        let queues = self.queues.get_or_insert_default();
        queues.insert(object_name(&queue.metadata), queue);
    }

    pub(crate) fn add_quota_policy(&mut self, policy: QuotaPolicy) {
        self.quota_policies
            .insert(object_name(&policy.metadata), policy);
    }

    pub(crate) fn add_quota_ledger(&mut self, ledger: QuotaLedger) {
        self.quota_ledgers
            .insert(object_name(&ledger.metadata), ledger);
    }

    pub(crate) fn add_flavor(&mut self, flavor: ResourceFlavor) {
        self.flavors.insert(object_name(&flavor.metadata), flavor);
    }

    pub(crate) fn add_topology(&mut self, topology: Topology) {
        self.topologies
            .insert(object_name(&topology.metadata), topology);
    }

    pub(crate) fn add_profile(&mut self, profile: RuntimeProfile) {
        let name = object_name(&profile.metadata);
        self.profiles.insert(&name, profile.into());
    }

    /// Adds a PodGroup.
    /// A PodGroup without an owning job (`kubectl delete --cascade=orphan`) is ignored, because it
    /// belongs to no gang.
    pub(crate) fn add_pod_group(&mut self, group: PodGroup) {
        if owner::controlling_job(&group.metadata).is_none() {
            return;
        }
        self.pod_groups.insert(object_key(&group.metadata), group);
    }

    pub(crate) fn add_job(&mut self, job: TrainingJob) {
        self.jobs.insert(object_key(&job.metadata), job);
    }

    pub(crate) fn add_priority_class(&mut self, class: PriorityClass) {
        self.priority_classes
            .insert(object_name(&class.metadata), class);
    }

    pub(crate) fn add_namespace(&mut self, namespace: SlimNamespace) {
        self.namespaces
            .insert(object_name(&namespace.metadata), namespace);
    }

    pub(crate) fn add_service(&mut self, service: Service) {
        self.services.insert(object_key(&service.metadata), service);
    }

    pub(super) fn add_resource_quota(&mut self, quota: ResourceQuota) {
        self.resource_quotas
            .insert(object_key(&quota.metadata), quota);
    }

    pub(super) fn add_claim(&mut self, claim: SlimClaim) {
        let claims = self.claims.get_or_insert_default();
        claims.insert(object_key(&claim.metadata), Arc::new(claim));
    }

    pub(super) fn add_volume(&mut self, volume: SlimVolume) {
        self.volumes
            .insert(object_name(&volume.metadata), Arc::new(volume));
    }

    pub(super) fn add_storage_class(&mut self, class: SlimStorageClass) {
        self.storage_classes
            .insert(object_name(&class.metadata), Arc::new(class));
    }

    pub(super) fn add_daemon_set(&mut self, set: SlimDaemonSet) {
        self.daemon_sets.insert(object_key(&set.metadata), set);
    }

    pub(super) fn add_device_class(&mut self, class: SlimDeviceClass) {
        self.device_classes
            .insert(object_name(&class.metadata), class);
    }

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

    /// Returns true if an object has no name.
    pub(crate) fn has_nameless(&self) -> bool {
        let named = [&self.pods.keys().next(), &self.services.keys().next()];
        let cluster = [
            self.nodes.keys().next(),
            self.queues.iter().flatten().next().map(|(name, _)| name),
            self.quota_policies.keys().next(),
            self.quota_ledgers.keys().next(),
            self.flavors.keys().next(),
            self.topologies.keys().next(),
            self.priority_classes.keys().next(),
            self.namespaces.keys().next(),
            self.volumes.keys().next(),
            self.storage_classes.keys().next(),
            self.device_classes.keys().next(),
        ];
        named
            .iter()
            .any(|key| key.is_some_and(|k| k.name.is_empty()))
            || self.policies.has_nameless()
            || self.profiles.get("").is_some()
            || cluster
                .iter()
                .any(|name| name.is_some_and(String::is_empty))
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
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The documented `kubectl get` list names every kind that is read.
    /// The sentences about files and clusters do so too.
    #[test]
    fn document_lists_every_kind_that_is_read() {
        let text = include_str!("../../../../docs/plan.md");
        let command = text
            .lines()
            .find(|l| l.starts_with("kubectl get "))
            .unwrap();
        let resources: BTreeSet<&str> = command.split(' ').nth(2).unwrap().split(',').collect();
        let read: BTreeSet<&str> = READ_KINDS
            .iter()
            .map(|(_, _, resource)| *resource)
            .collect();
        assert_eq!(resources, read);
        let section = |title: &str| {
            text.split(title)
                .nth(1)
                .unwrap()
                .split("\n## ")
                .next()
                .unwrap()
        };
        for (version, kind, _) in READ_KINDS {
            let stem = kind.strip_suffix('s').map(|k| format!("{k}se"));
            let stem = stem.or_else(|| kind.strip_suffix('y').map(|k| format!("{k}ie")));
            let plural = format!("{}s", stem.unwrap_or_else(|| kind.to_owned()));
            for title in ["## On a cluster", "## On files"] {
                assert!(section(title).contains(&plural), "{title}: {plural}");
            }
            let mut text =
                format!("{{apiVersion: {version}, kind: {kind}, metadata: {{name: a}}}}");
            if version.starts_with("trellis") {
                let spec = match kind {
                    "TrainingJob" => "{taskGroups: []}",
                    "Topology" => "{levels: [{nodeLabel: rack}]}",
                    "ClusterJobPolicy" | "JobPolicy" => "{cedar: a}",
                    "QuotaPolicy" => "{subject: {}, limits: {runningJobs: 1}}",
                    "QuotaLedger" => "{until: \"2026-01-01T00:00:00Z\"}",
                    "PodGroup" => "{minMember: 1, queueName: q, priority: 0, groups: []}",
                    _ => "{}",
                };
                text = text.replace("}}", &format!("}}, spec: {spec}}}"));
            } else if kind == "PriorityClass" {
                text = text.replace("}}", "}, value: 1}");
            }
            let document = &trellis_api::document::split(&text).unwrap()[0];
            assert!(
                ClusterSnapshot::default().add_document(document).unwrap(),
                "{kind}"
            );
        }
    }
}
