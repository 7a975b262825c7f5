//! The kinds of objects that a plan depends on, in one table.
//! Names and versions come from the types that the operator watches.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Resource;
use kube::api::ObjectMeta;
use trellis_api::document::{Document, Problems};
use trellis_api::{
    ClusterJobPolicy, GROUP, JobPolicy, PodGroup, QuotaLedger, QuotaPolicy, ResourceFlavor,
    RuntimeProfile, Topology, TrainingJob, TrainingQueue, owner,
};
use trellis_gang::key::Key;
use trellis_gang::observed::{
    SlimClaim, SlimDaemonSet, SlimDeviceClass, SlimNamespace, SlimNode, SlimPod, SlimStorageClass,
    SlimVolume,
};
use trellis_policies::cedar::PolicyObject;

use super::cluster_snapshot::ClusterSnapshot;
use crate::files::node_defaults;
use crate::files::source_object::DEFAULT_NAMESPACE;

/// All kinds that a plan depends on. A test compares them with the documentation.
const READ_KINDS: [KindRow; 21] = [
    KindRow::new::<SlimNode>(),
    KindRow::new::<SlimPod>(),
    KindRow::new::<SlimNamespace>(),
    KindRow::new::<Service>(),
    KindRow::new::<PriorityClass>(),
    KindRow::new::<TrainingQueue>(),
    KindRow::new::<ResourceFlavor>(),
    KindRow::new::<ResourceQuota>(),
    KindRow::new::<SlimClaim>(),
    KindRow::new::<SlimVolume>(),
    KindRow::new::<SlimStorageClass>(),
    KindRow::new::<SlimDaemonSet>(),
    KindRow::new::<SlimDeviceClass>(),
    KindRow::new::<Topology>(),
    KindRow::new::<RuntimeProfile>(),
    KindRow::new::<ClusterJobPolicy>(),
    KindRow::new::<JobPolicy>(),
    KindRow::new::<QuotaPolicy>(),
    KindRow::new::<QuotaLedger>(),
    KindRow::new::<PodGroup>(),
    KindRow::new::<TrainingJob>(),
];

/// The names of a kind, and the function that adds an object of a file to a snapshot.
struct KindRow {
    api_version: fn(&()) -> Cow<'_, str>,
    kind: fn(&()) -> Cow<'_, str>,
    group: fn(&()) -> Cow<'_, str>,
    plural: fn(&()) -> Cow<'_, str>,
    add_document: fn(&Document, &mut ClusterSnapshot) -> Result<String, Problems>,
}

impl KindRow {
    const fn new<K: SnapshotKind>() -> Self {
        Self {
            api_version: K::api_version,
            kind: K::kind,
            group: K::group,
            plural: K::plural,
            add_document: |document, snapshot| {
                let object = K::decode(document)?;
                let name = object_name(object.meta());
                object.add_to(snapshot);
                Ok(name)
            },
        }
    }

    fn is_kind_of(&self, document: &Document) -> bool {
        (self.api_version)(&()) == document.api_version && (self.kind)(&()) == document.kind
    }

    /// Returns the resource name for roles and `kubectl get`.
    fn resource(&self) -> String {
        let plural = (self.plural)(&());
        match (self.group)(&()) {
            group if group == GROUP => format!("{plural}.{group}"),
            _ => plural.into_owned(),
        }
    }
}

/// Returns the resource names of all kinds that are read.
pub(crate) fn resource_list() -> String {
    READ_KINDS.map(|row| row.resource()).join(", ")
}

/// A kind of objects in a [`ClusterSnapshot`].
pub(crate) trait SnapshotKind: Resource<DynamicType = ()> + Sized {
    /// Decodes an object of a file.
    fn decode(document: &Document) -> Result<Self, Problems>;

    /// Adds the object to a snapshot. It replaces an object with the same name.
    fn add_to(self, snapshot: &mut ClusterSnapshot);
}

impl ClusterSnapshot {
    /// Adds an object of a file and returns its name. Returns None if no plan depends on its kind.
    pub(crate) fn add_document(&mut self, document: &Document) -> Result<Option<String>, Problems> {
        let row = READ_KINDS.iter().find(|row| row.is_kind_of(document));
        row.map(|row| (row.add_document)(document, self))
            .transpose()
    }

    /// Adds an object. It replaces an object with the same name.
    pub(crate) fn add(&mut self, object: impl SnapshotKind) {
        object.add_to(self);
    }
}

fn object_name(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

/// Returns the key of an object.
fn object_key(meta: &ObjectMeta) -> Key {
    let namespace = meta.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    Key::new(namespace, meta.name.as_deref().unwrap_or_default())
}

/// Implements [`SnapshotKind`] for a kind with a map of its own: kind, method that decodes a
/// document, map, and function that returns the object's key in the map.
macro_rules! snapshot_kind {
    ($kind:ty, $decode:ident, $map:ident, $key:ident) => {
        impl SnapshotKind for $kind {
            fn decode(document: &Document) -> Result<Self, Problems> {
                document.$decode()
            }

            fn add_to(self, snapshot: &mut ClusterSnapshot) {
                snapshot.$map.insert($key(&self.metadata), self.into());
            }
        }
    };
}

snapshot_kind!(SlimPod, decode, pods, object_key);
snapshot_kind!(SlimNamespace, decode, namespaces, object_name);
snapshot_kind!(Service, decode, services, object_key);
snapshot_kind!(PriorityClass, decode, priority_classes, object_name);
snapshot_kind!(ResourceFlavor, decode_valid, flavors, object_name);
snapshot_kind!(ResourceQuota, decode, resource_quotas, object_key);
snapshot_kind!(SlimVolume, decode, volumes, object_name);
snapshot_kind!(SlimStorageClass, decode, storage_classes, object_name);
snapshot_kind!(SlimDaemonSet, decode, daemon_sets, object_key);
snapshot_kind!(SlimDeviceClass, decode, device_classes, object_name);
snapshot_kind!(Topology, decode_valid, topologies, object_name);
snapshot_kind!(QuotaPolicy, decode_valid, quota_policies, object_name);
snapshot_kind!(QuotaLedger, decode, quota_ledgers, object_name);
snapshot_kind!(TrainingJob, decode, jobs, object_key);

impl SnapshotKind for SlimNode {
    fn decode(document: &Document) -> Result<Self, Problems> {
        let mut node = document.decode()?;
        node_defaults::apply_node_defaults(document, &mut node)?;
        Ok(node)
    }

    fn add_to(self, snapshot: &mut ClusterSnapshot) {
        snapshot.nodes.insert(object_name(&self.metadata), self);
    }
}

impl SnapshotKind for TrainingQueue {
    fn decode(document: &Document) -> Result<Self, Problems> {
        document.decode_valid()
    }

    fn add_to(self, snapshot: &mut ClusterSnapshot) {
        let queues = snapshot.queues.get_or_insert_default();
        queues.insert(object_name(&self.metadata), self);
    }
}

impl SnapshotKind for SlimClaim {
    fn decode(document: &Document) -> Result<Self, Problems> {
        document.decode()
    }

    fn add_to(self, snapshot: &mut ClusterSnapshot) {
        let claims = snapshot.claims.get_or_insert_default();
        claims.insert(object_key(&self.metadata), self.into());
    }
}

impl SnapshotKind for RuntimeProfile {
    fn decode(document: &Document) -> Result<Self, Problems> {
        document.decode_valid()
    }

    fn add_to(self, snapshot: &mut ClusterSnapshot) {
        let name = object_name(&self.metadata);
        snapshot.profiles.insert(&name, self.into());
    }
}

impl SnapshotKind for ClusterJobPolicy {
    fn decode(document: &Document) -> Result<Self, Problems> {
        document.decode_valid()
    }

    fn add_to(self, snapshot: &mut ClusterSnapshot) {
        snapshot.policies.add(PolicyObject::from(&self));
    }
}

impl SnapshotKind for JobPolicy {
    fn decode(document: &Document) -> Result<Self, Problems> {
        document.decode_valid()
    }

    fn add_to(mut self, snapshot: &mut ClusterSnapshot) {
        self.metadata.namespace = Some(object_key(&self.metadata).namespace.to_string());
        snapshot.policies.add(PolicyObject::from(&self));
    }
}

impl SnapshotKind for PodGroup {
    fn decode(document: &Document) -> Result<Self, Problems> {
        document.decode()
    }

    /// Ignores a PodGroup without an owning job (`kubectl delete --cascade=orphan`), because it
    /// belongs to no gang.
    fn add_to(self, snapshot: &mut ClusterSnapshot) {
        if owner::controlling_job(&self.metadata).is_some() {
            snapshot.pod_groups.insert(object_key(&self.metadata), self);
        }
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
        let text = include_str!("../../../../../docs/plan.md");
        let command = text
            .lines()
            .find(|l| l.starts_with("kubectl get "))
            .unwrap();
        let resources: BTreeSet<&str> = command.split(' ').nth(2).unwrap().split(',').collect();
        let read: BTreeSet<String> = READ_KINDS.iter().map(KindRow::resource).collect();
        let read: BTreeSet<&str> = read.iter().map(String::as_str).collect();
        assert_eq!(resources, read);
        let section = |title: &str| {
            text.split(title)
                .nth(1)
                .unwrap()
                .split("\n## ")
                .next()
                .unwrap()
        };
        for row in READ_KINDS {
            let (version, kind) = ((row.api_version)(&()), (row.kind)(&()));
            let stem = kind.strip_suffix('s').map(|k| format!("{k}se"));
            let stem = stem.or_else(|| kind.strip_suffix('y').map(|k| format!("{k}ie")));
            let plural = format!("{}s", stem.unwrap_or_else(|| kind.to_string()));
            for title in ["## On a cluster", "## On files"] {
                assert!(section(title).contains(&plural), "{title}: {plural}");
            }
            let mut text =
                format!("{{apiVersion: {version}, kind: {kind}, metadata: {{name: a}}}}");
            if version.starts_with("trellis") {
                let spec = match &*kind {
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
            let added = ClusterSnapshot::default().add_document(document).unwrap();
            assert_eq!(added.as_deref(), Some("a"), "{kind}");
        }
    }
}
