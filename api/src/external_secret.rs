//! ExternalSecret, the kind of External Secrets Operator, as far as Trellis writes it.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::job::SecretStore;

/// What is read from a store, and the Secret that it is written to
/// (`external-secrets.io/v1`). What the API server would fill in is written out, so that
/// a comparison with what it stores sees no difference.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "external-secrets.io",
    version = "v1",
    kind = "ExternalSecret",
    plural = "externalsecrets",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretSpec {
    /// The store.
    pub secret_store_ref: SecretStore,
    /// After how long values are read again, as Go writes it: `1h0m0s`.
    pub refresh_interval: String,
    /// The Secret that is made.
    pub target: ExternalSecretTarget,
    /// Its keys.
    pub data: Vec<ExternalSecretData>,
}

/// The Secret that is made.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretTarget {
    /// Its name.
    pub name: String,
    /// `Owner`: it goes with the ExternalSecret.
    pub creation_policy: String,
    /// `Retain`: a value that is gone from the store is an error, and the Secret stays.
    pub deletion_policy: String,
    /// Of a Secret that is not Opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<ExternalSecretTemplate>,
}

/// What the Secret is, beside its values.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretTemplate {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Version of the template language, of which nothing is used.
    pub engine_version: String,
    /// What a template of values would do with those that were read.
    pub merge_policy: String,
}

/// One key.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretData {
    /// The key in the Secret.
    pub secret_key: String,
    /// Where its value is kept.
    pub remote_ref: ExternalSecretRemoteRef,
}

/// Where a value is kept, and that it is taken as it is.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretRemoteRef {
    /// The path in the store.
    pub key: String,
    /// The property of what is kept there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
    /// How keys are renamed where all are taken.
    pub conversion_strategy: String,
    /// How the value is decoded.
    pub decoding_strategy: String,
    /// Whether what is known about the value is taken too.
    pub metadata_policy: String,
}
