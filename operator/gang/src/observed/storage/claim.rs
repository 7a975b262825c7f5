//! Claims: their volumes, or their requirements for a volume.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as RawQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};
use trellis_api::names;
use trellis_api::quantity::Amount;

use super::{SELECTED_NODE, amount, annotation, binding};
use crate::observed::slim::slim;

/// The volume mode of a claim that names none.
const FILESYSTEM: &str = "Filesystem";

/// A PersistentVolumeClaim: its volume, or its requirements for one.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::PersistentVolumeClaim")]
pub struct SlimClaim {
    /// Metadata with the owner, and only the annotations of binding.
    #[serde(deserialize_with = "owned")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: SlimClaimSpec,
    /// Status.
    #[serde(default)]
    pub status: SlimClaimStatus,
}

/// The fields of a claim's spec that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimClaimSpec {
    /// Name of the bound volume.
    pub volume_name: String,
    /// StorageClass of the claim.
    pub storage_class_name: Option<String>,
    /// Requested storage.
    pub resources: SlimStorageRequests,
    /// Access modes of the claim.
    pub access_modes: Vec<String>,
    /// Selector for labels of the volume.
    pub selector: Option<LabelSelector>,
    /// Filesystem or Block.
    pub volume_mode: Option<String>,
    /// VolumeAttributesClass of the claim.
    pub volume_attributes_class_name: Option<String>,
}

/// Requested storage of a claim.
#[derive(Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct SlimStorageRequests {
    /// Requests by resource: there is one, `storage`.
    pub requests: BTreeMap<String, RawQuantity>,
}

impl From<core::PersistentVolumeClaimSpec> for SlimClaimSpec {
    fn from(spec: core::PersistentVolumeClaimSpec) -> Self {
        let requests = spec.resources.and_then(|resources| resources.requests);
        Self {
            volume_name: spec.volume_name.unwrap_or_default(),
            storage_class_name: spec.storage_class_name,
            resources: SlimStorageRequests {
                requests: requests.unwrap_or_default(),
            },
            access_modes: spec.access_modes.unwrap_or_default(),
            selector: spec.selector,
            volume_mode: spec.volume_mode,
            volume_attributes_class_name: spec.volume_attributes_class_name,
        }
    }
}

impl SlimClaimSpec {
    /// Returns true if both have equal requirements. Quantities are compared by value: `1Gi` equals
    /// `1024Mi`.
    #[must_use]
    pub(crate) fn has_same_requirements(&self, other: &Self) -> bool {
        let mode = |c: &Self| c.volume_mode.clone().unwrap_or(FILESYSTEM.to_owned());
        mode(self) == mode(other)
            && amount(&self.resources.requests) == amount(&other.resources.requests)
            && self.storage_class_name == other.storage_class_name
            && self.access_modes == other.access_modes
            && self.selector == other.selector
            && self.volume_attributes_class_name == other.volume_attributes_class_name
    }
}

/// The fields of a claim's status that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimClaimStatus {
    /// Pending, Bound, Lost.
    pub phase: String,
}

impl SlimClaim {
    /// Returns the name of the claim's class, empty if it has none.
    #[must_use]
    pub fn class(&self) -> &str {
        self.spec.storage_class_name.as_deref().unwrap_or_default()
    }

    /// Returns true if the claim is bound to a volume.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.status.phase == "Bound" && !self.spec.volume_name.is_empty()
    }

    /// Returns true if the claim has no volume and has not lost one.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.spec.volume_name.is_empty() && self.status.phase != "Lost"
    }

    /// Returns the requested bytes. None if the quantity does not parse.
    #[must_use]
    pub fn amount(&self) -> Option<Amount> {
        amount(&self.spec.resources.requests)
    }

    /// Returns true if the claim requests this access mode.
    #[must_use]
    pub(crate) fn has_mode(&self, mode: &str) -> bool {
        self.spec.access_modes.iter().any(|m| m == mode)
    }

    /// Returns the node for which the claim's volume is to be provisioned.
    #[must_use]
    pub fn selected_node(&self) -> Option<&str> {
        annotation(&self.metadata, SELECTED_NODE)
    }

    /// Returns the plan for which that node was selected. None if another scheduler has selected
    /// it.
    #[must_use]
    pub fn plan(&self) -> Option<&str> {
        annotation(&self.metadata, names::PLAN)
    }

    /// Returns the pod that owns an ephemeral claim: the claim is created and deleted with it
    /// (KEP-1698).
    #[must_use]
    pub fn pod(&self) -> Option<&OwnerReference> {
        let mut owners = self.metadata.owner_references.iter().flatten();
        owners.find(|o| o.controller == Some(true) && o.kind == "Pod" && o.api_version == "v1")
    }

    /// Returns true if both are equal for the pods that mount the claim.
    #[must_use]
    pub fn is_equal_for_pods(&self, other: &Self) -> bool {
        let read = |c: &Self| {
            let meta = &c.metadata;
            let going = meta.deletion_timestamp.is_some();
            let owner = c.pod().map(|pod| pod.uid.clone());
            (meta.uid.clone(), going, owner, meta.annotations.clone())
        };
        read(self) == read(other) && self.spec == other.spec && self.status == other.status
    }
}

fn owned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    Ok(binding(slim(deserializer)?))
}
