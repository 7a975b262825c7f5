//! Claims, volumes and their classes, as far as they say where a pod may run, and which of
//! them are for each other.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as RawQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};
use trellis_api::quantity::Amount;
use trellis_api::{Quantity, names};

use super::slim::{bare, slim};

/// The annotation of a claim that names the node for which its volume is to be provisioned.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation of a volume whose claim no user has chosen: the controller manager may part
/// the two again.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The provisioner of classes that provision nothing.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A PersistentVolumeClaim: which volume it has, or what it asks of one.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::PersistentVolumeClaim")]
pub struct SlimClaim {
    /// Metadata, without labels; of the annotations those of binding.
    #[serde(deserialize_with = "binding")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: SlimClaimSpec,
    /// Status.
    #[serde(default)]
    pub status: SlimClaimStatus,
}

/// What is read of a claim's spec.
#[derive(Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimClaimSpec {
    /// Its volume.
    pub volume_name: String,
    /// Its class.
    pub storage_class_name: Option<String>,
    /// What it asks for.
    pub resources: SlimStorageRequests,
    /// How it is mounted.
    pub access_modes: Vec<String>,
    /// Labels of its volume.
    pub selector: Option<LabelSelector>,
    /// Filesystem or Block.
    pub volume_mode: Option<String>,
    /// Its VolumeAttributesClass.
    pub volume_attributes_class_name: Option<String>,
}

/// How much a claim asks for.
#[derive(Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct SlimStorageRequests {
    /// By resource: there is one, `storage`.
    pub requests: BTreeMap<String, RawQuantity>,
}

/// What is read of a claim's status.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimClaimStatus {
    /// Pending, Bound, Lost.
    pub phase: String,
}

impl SlimClaim {
    /// The name of its class; empty where it has none.
    #[must_use]
    pub fn class(&self) -> &str {
        self.spec.storage_class_name.as_deref().unwrap_or_default()
    }

    /// True if it has its volume.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.status.phase == "Bound" && !self.spec.volume_name.is_empty()
    }

    /// True if it is neither bound nor about to be.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.spec.volume_name.is_empty() && self.status.phase != "Lost"
    }

    /// How much it asks for. None: what is no quantity.
    #[must_use]
    pub fn amount(&self) -> Option<Amount> {
        amount(&self.spec.resources.requests)
    }

    /// True if it asks for this access mode.
    #[must_use]
    pub fn has_mode(&self, mode: &str) -> bool {
        self.spec.access_modes.iter().any(|m| m == mode)
    }

    /// The node for which its volume is to be provisioned.
    #[must_use]
    pub fn selected_node(&self) -> Option<&str> {
        annotation(&self.metadata, SELECTED_NODE)
    }

    /// The plan for which that node was selected, where it was one of ours.
    #[must_use]
    pub fn plan(&self) -> Option<&str> {
        annotation(&self.metadata, names::PLAN)
    }

    /// True if both look the same to whoever mounts the claim.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let read = |c: &Self| {
            let meta = &c.metadata;
            let going = meta.deletion_timestamp.is_some();
            (meta.uid.clone(), going, meta.annotations.clone())
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

/// A PersistentVolume: which nodes reach it, whose it is, and what it offers.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::PersistentVolume")]
pub struct SlimVolume {
    /// Metadata; of the annotations those of binding.
    #[serde(deserialize_with = "binding")]
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

fn amount(amounts: &BTreeMap<String, RawQuantity>) -> Option<Amount> {
    match amounts.get("storage") {
        Some(quantity) => Quantity::new(quantity.0.as_str()).amount().ok(),
        None => Some(Amount::ZERO),
    }
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

fn binding<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut meta = slim(deserializer)?;
    meta.owner_references = None;
    let mut annotations: BTreeMap<_, _> = meta.annotations.take().unwrap_or_default();
    annotations
        .retain(|key, _| [SELECTED_NODE, BOUND_BY_CONTROLLER, names::PLAN].contains(&key.as_str()));
    meta.annotations = Some(annotations).filter(|a| !a.is_empty());
    Ok(meta)
}

/// A StorageClass: when its claims are bound, and to what.
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
    /// Who provisions its volumes.
    #[serde(default)]
    pub provisioner: String,
    /// Where they can be provisioned: one of the terms must match. None: anywhere.
    #[serde(default)]
    pub allowed_topologies: Option<Vec<core::TopologySelectorTerm>>,
}

impl SlimStorageClass {
    /// True if its claims are bound where their first pod is placed.
    #[must_use]
    pub fn binds_late(&self) -> bool {
        self.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
    }

    /// True if volumes of it can be provisioned.
    #[must_use]
    pub fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && self.provisioner != NO_PROVISIONER
    }

    /// True if both bind alike.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.volume_binding_mode == other.volume_binding_mode
            && self.provisioner == other.provisioner
            && self.allowed_topologies == other.allowed_topologies
    }
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
