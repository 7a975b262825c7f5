//! Volumes: the nodes that reach them, their claims and their properties.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as RawQuantity;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};
use trellis_api::names;
use trellis_api::quantity::Amount;

use super::{amount, annotation, binding};
use crate::observed::slim::slim;

/// The labels that restrict a volume to a zone or region (kube-scheduler's VolumeZone).
pub const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// A PersistentVolume: the nodes that reach it, its claim and its properties.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::PersistentVolume")]
pub struct SlimVolume {
    /// Metadata without owners, and only the annotations of binding.
    #[serde(deserialize_with = "without_owners")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: SlimVolumeSpec,
    /// Status.
    #[serde(default)]
    pub status: SlimVolumeStatus,
}

/// The fields of a volume's spec that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimVolumeSpec {
    /// Nodes that reach the volume. None for all nodes.
    pub node_affinity: Option<core::VolumeNodeAffinity>,
    /// The claim that holds the volume, or for which it is reserved.
    pub claim_ref: Option<SlimClaimRef>,
    /// StorageClass of the volume.
    pub storage_class_name: Option<String>,
    /// Capacity: there is one resource, `storage`.
    pub capacity: BTreeMap<String, RawQuantity>,
    /// Access modes of the volume.
    pub access_modes: Vec<String>,
    /// Filesystem or Block.
    pub volume_mode: Option<String>,
    /// VolumeAttributesClass of the volume.
    pub volume_attributes_class_name: Option<String>,
}

/// The fields of a volume's status that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimVolumeStatus {
    /// Pending, Available, Bound, Released, Failed.
    pub phase: String,
}

/// A reference to a claim.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct SlimClaimRef {
    /// Namespace of the claim.
    pub namespace: String,
    /// Name of the claim.
    pub name: String,
    /// Uid of the claim. None in a reference that a user wrote by hand.
    pub uid: Option<String>,
}

impl SlimVolume {
    /// Returns the name of the volume.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the name of the volume's class, empty if it has none.
    #[must_use]
    pub fn class(&self) -> &str {
        self.spec.storage_class_name.as_deref().unwrap_or_default()
    }

    /// Returns the capacity in bytes. None if the quantity does not parse.
    #[must_use]
    pub fn amount(&self) -> Option<Amount> {
        amount(&self.spec.capacity)
    }

    /// Returns the plan that reserved the volume for its claim. None if Trellis did not.
    #[must_use]
    pub fn plan(&self) -> Option<&str> {
        annotation(&self.metadata, names::PLAN)
    }

    /// Returns true if both are equal for the claims and nodes that may use them.
    #[must_use]
    pub fn is_equal_for_claims(&self, other: &Self) -> bool {
        let going = |v: &Self| v.metadata.deletion_timestamp.is_some();
        self.spec == other.spec
            && self.status == other.status
            && self.metadata.labels == other.metadata.labels
            && going(self) == going(other)
    }
}

fn without_owners<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut meta = binding(slim(deserializer)?);
    meta.owner_references = None;
    Ok(meta)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slim_volume_keeps_only_placement_and_binding_fields() {
        let volume: SlimVolume = serde_json::from_value(json!({
            "metadata": {
                "name": "v", "uid": "u", "resourceVersion": "7",
                "labels": {"topology.kubernetes.io/zone": "a", "team": "x"},
                "annotations": {"big": "one", "trellis.dev/plan": "h"},
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
        assert_eq!(volume.metadata.annotations.clone().unwrap().len(), 1);
        assert_eq!(volume.plan(), Some("h"));
        assert_eq!(volume.amount(), Some(Amount::from_units(1 << 40)));
        assert_eq!(volume.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(volume.spec.claim_ref.as_ref().unwrap().name, "c");
        let mut another = volume.clone();
        assert!(another.is_equal_for_claims(&volume));
        another.spec.node_affinity = None;
        assert!(!another.is_equal_for_claims(&volume));
    }
}
