//! Claims, volumes and their classes, as far as they say where a pod may run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::slim::bare;

/// A PersistentVolumeClaim: which volume it has.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::PersistentVolumeClaim")]
pub struct SlimClaim {
    /// Metadata, without labels and annotations.
    #[serde(deserialize_with = "bare")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: SlimClaimSpec,
    /// Status.
    #[serde(default)]
    pub status: SlimClaimStatus,
}

/// What is read of a claim's spec.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimClaimSpec {
    /// Its volume.
    pub volume_name: String,
    /// Its class.
    pub storage_class_name: Option<String>,
}

/// What is read of a claim's status.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimClaimStatus {
    /// Pending, Bound, Lost.
    pub phase: String,
}

impl SlimClaim {
    /// True if both look the same to whoever mounts the claim.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let read = |c: &Self| {
            let meta = &c.metadata;
            (meta.uid.clone(), meta.deletion_timestamp.is_some())
        };
        read(self) == read(other) && self.spec == other.spec && self.status == other.status
    }
}

/// The labels that keep a volume to a zone or region (kube-scheduler's VolumeZone).
pub const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// A PersistentVolume: which nodes reach it, and whose it is.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::PersistentVolume")]
pub struct SlimVolume {
    /// Metadata; of the labels those of zones and regions.
    #[serde(deserialize_with = "zoned")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: SlimVolumeSpec,
}

/// What is read of a volume's spec.
#[derive(Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimVolumeSpec {
    /// Nodes that reach it. None: all.
    pub node_affinity: Option<core::VolumeNodeAffinity>,
    /// The claim that has it.
    pub claim_ref: Option<SlimClaimRef>,
}

/// The name of a claim.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct SlimClaimRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl SlimVolume {
    /// True if both are reached from the same nodes by the same claim.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.spec == other.spec && self.metadata.labels == other.metadata.labels
    }
}

fn zoned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut meta = super::slim::slim(deserializer)?;
    meta.annotations = None;
    meta.owner_references = None;
    let mut labels: BTreeMap<_, _> = meta.labels.take().unwrap_or_default();
    labels.retain(|label, _| ZONE_LABELS.contains(&label.as_str()));
    meta.labels = Some(labels).filter(|l| !l.is_empty());
    Ok(meta)
}

/// A StorageClass: when its claims are bound.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "storage::StorageClass")]
#[serde(rename_all = "camelCase")]
pub struct SlimStorageClass {
    /// Metadata, without labels and annotations.
    #[serde(deserialize_with = "bare")]
    pub metadata: ObjectMeta,
    /// Immediate or WaitForFirstConsumer.
    #[serde(default)]
    pub volume_binding_mode: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_a_volume_only_what_places_pods_is_kept() {
        let volume: SlimVolume = serde_json::from_value(json!({
            "metadata": {
                "name": "v", "uid": "u", "resourceVersion": "7",
                "labels": {"topology.kubernetes.io/zone": "a", "team": "x"},
                "annotations": {"big": "one"},
                "managedFields": [{"manager": "m"}],
            },
            "spec": {
                "capacity": {"storage": "1Ti"},
                "nfs": {"server": "s", "path": "/"},
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "ns", "name": "c", "uid": "c"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["a"]}]}]}},
            },
            "status": {"phase": "Bound"},
        }))
        .unwrap();
        let labels = volume.metadata.labels.clone().unwrap();
        assert_eq!(
            labels.keys().collect::<Vec<_>>(),
            ["topology.kubernetes.io/zone"]
        );
        assert_eq!(volume.metadata.annotations, None);
        assert_eq!(volume.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(volume.spec.claim_ref.as_ref().unwrap().name, "c");
        let mut another = volume.clone();
        assert!(another.is_like(&volume));
        another.spec.node_affinity = None;
        assert!(!another.is_like(&volume));
    }
}
