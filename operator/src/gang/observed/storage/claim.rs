//! Claims: which volume one has, or what it asks of one.

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
use crate::gang::observed::slim::slim;

/// The volume mode of a claim that names none.
const FILESYSTEM: &str = "Filesystem";

/// A PersistentVolumeClaim: which volume it has, or what it asks of one.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "core::PersistentVolumeClaim")]
pub struct SlimClaim {
    /// Metadata, with its owner; of the annotations those of binding.
    #[serde(deserialize_with = "owned")]
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
    /// True if both ask for the same volumes, however it is written.
    #[must_use]
    pub fn asks_as(&self, other: &Self) -> bool {
        let mode = |c: &Self| c.volume_mode.clone().unwrap_or(FILESYSTEM.to_owned());
        mode(self) == mode(other)
            && amount(&self.resources.requests) == amount(&other.resources.requests)
            && self.storage_class_name == other.storage_class_name
            && self.access_modes == other.access_modes
            && self.selector == other.selector
            && self.volume_attributes_class_name == other.volume_attributes_class_name
    }
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

    /// The pod whose own it is: made with it, and gone with it (KEP-1698).
    #[must_use]
    pub fn pod(&self) -> Option<&OwnerReference> {
        let mut owners = self.metadata.owner_references.iter().flatten();
        owners.find(|o| o.controller == Some(true) && o.kind == "Pod" && o.api_version == "v1")
    }

    /// True if both look the same to whoever mounts the claim.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
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
