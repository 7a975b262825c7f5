//! StorageClasses: when their claims are bound, and to which volumes.

use std::borrow::Borrow;
use std::cmp::Reverse;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::annotation;
use crate::observed::slim::slim;

/// The annotations that mark the default class; the second is the old name.
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// The provisioner of classes that provision no volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A StorageClass: when its claims are bound, and to which volumes.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "storage::StorageClass")]
#[serde(rename_all = "camelCase")]
pub struct SlimStorageClass {
    /// Metadata, and only the annotations that mark the default class.
    #[serde(deserialize_with = "default_or_not")]
    pub metadata: ObjectMeta,
    /// Immediate or WaitForFirstConsumer.
    #[serde(default)]
    pub volume_binding_mode: Option<String>,
    /// Provisioner of the class's volumes.
    #[serde(default)]
    pub provisioner: String,
    /// Where volumes can be provisioned: one of the terms must match. None for all nodes.
    #[serde(default)]
    pub allowed_topologies: Option<Vec<core::TopologySelectorTerm>>,
}

impl SlimStorageClass {
    /// Returns true if claims are bound when their first pod is placed.
    #[must_use]
    pub fn binds_on_first_consumer(&self) -> bool {
        self.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
    }

    /// Returns true if volumes of the class can be provisioned.
    #[must_use]
    pub fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && self.provisioner != NO_PROVISIONER
    }

    /// Returns true if the class is a default for claims that name none.
    #[must_use]
    pub fn is_default(&self) -> bool {
        let is_set = |key: &&str| annotation(&self.metadata, key) == Some("true");
        DEFAULT_CLASS_ANNOTATIONS.iter().any(is_set)
    }

    /// Returns true if both bind in the same way.
    #[must_use]
    pub fn is_equal_for_binding(&self, other: &Self) -> bool {
        self.volume_binding_mode == other.volume_binding_mode
            && self.is_default() == other.is_default()
            && self.provisioner == other.provisioner
            && self.allowed_topologies == other.allowed_topologies
    }
}

/// Returns the class of claims that name none: the youngest default, then the first by name
/// (`GetDefaultClass` of the admission plugin DefaultStorageClass).
#[must_use]
pub fn default_class<S: Borrow<SlimStorageClass>>(
    classes: impl IntoIterator<Item = S>,
) -> Option<S> {
    let defaults = classes
        .into_iter()
        .filter(|class| class.borrow().is_default());
    defaults.min_by_key(|class| {
        let meta = &class.borrow().metadata;
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        (Reverse(created), meta.name.clone())
    })
}

fn default_or_not<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut meta = slim(deserializer)?;
    if let Some(annotations) = &mut meta.annotations {
        annotations.retain(|key, _| DEFAULT_CLASS_ANNOTATIONS.contains(&key.as_str()));
    }
    meta.labels = None;
    Ok(meta)
}
