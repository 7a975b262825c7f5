//! Volumes: which nodes reach one, whose it is, and what it offers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as RawQuantity;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};
use trellis_api::names;
use trellis_api::quantity::Amount;

use super::{amount, annotation, binding};
use crate::gang::observed::slim::slim;

/// The labels that keep a volume to a zone or region (kube-scheduler's VolumeZone).
pub const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// A PersistentVolume: which nodes reach it, whose it is, and what it offers.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::PersistentVolume")]
pub struct SlimVolume {
    /// Metadata; of the annotations those of binding.
    #[serde(deserialize_with = "of_nobody")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: SlimVolumeSpec,
    /// Status.
    #[serde(default)]
    pub status: SlimVolumeStatus,
}

/// What is read of a volume's spec.
#[derive(Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimVolumeSpec {
    /// Nodes that reach it. None: all.
    pub node_affinity: Option<core::VolumeNodeAffinity>,
    /// The claim that has it.
    pub claim_ref: Option<SlimClaimRef>,
    /// Its class.
    pub storage_class_name: Option<String>,
    /// How much it holds: there is one resource, `storage`.
    pub capacity: BTreeMap<String, RawQuantity>,
    /// How it can be mounted.
    pub access_modes: Vec<String>,
    /// Filesystem or Block.
    pub volume_mode: Option<String>,
    /// Its VolumeAttributesClass.
    pub volume_attributes_class_name: Option<String>,
}

/// What is read of a volume's status.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimVolumeStatus {
    /// Pending, Available, Bound, Released, Failed.
    pub phase: String,
}

/// The name of a claim.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct SlimClaimRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid. None: whoever chose the claim by hand does not say.
    pub uid: Option<String>,
}

impl SlimVolume {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The name of its class; empty where it has none.
    #[must_use]
    pub fn class(&self) -> &str {
        self.spec.storage_class_name.as_deref().unwrap_or_default()
    }

    /// How much it holds. None: what is no quantity.
    #[must_use]
    pub fn amount(&self) -> Option<Amount> {
        amount(&self.spec.capacity)
    }

    /// The plan for which it was given its claim, where it was one of ours.
    #[must_use]
    pub fn plan(&self) -> Option<&str> {
        annotation(&self.metadata, names::PLAN)
    }

    /// True if both are reached from the same nodes by the same claims.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let going = |v: &Self| v.metadata.deletion_timestamp.is_some();
        self.spec == other.spec
            && self.status == other.status
            && self.metadata.labels == other.metadata.labels
            && going(self) == going(other)
    }
}

fn of_nobody<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut meta = binding(slim(deserializer)?);
    meta.owner_references = None;
    Ok(meta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_a_volume_only_what_places_pods_and_binds_is_kept() {
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
        assert!(another.is_like(&volume));
        another.spec.node_affinity = None;
        assert!(!another.is_like(&volume));
    }
}
