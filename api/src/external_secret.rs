//! The fields of ExternalSecret (External Secrets Operator) that Trellis writes.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::job::SecretStore;

/// The values that External Secrets Operator reads from a store, and the Secret that it writes them
/// to (`external-secrets.io/v1`). Trellis writes the API server's defaults explicitly, so that the
/// stored object compares equal.
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
    /// The store that holds the values.
    pub secret_store_ref: SecretStore,
    /// Interval between two reads of the values, as a Go duration: `1h0m0s`.
    pub refresh_interval: String,
    /// The Secret that External Secrets Operator creates.
    pub target: ExternalSecretTarget,
    /// Keys of the Secret.
    pub data: Vec<ExternalSecretData>,
}

/// The Secret that External Secrets Operator creates.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretTarget {
    /// Name of the Secret.
    pub name: String,
    /// `Owner`: the Secret is deleted with the ExternalSecret.
    pub creation_policy: String,
    /// `Retain`: the Secret stays when a value is missing from the store, and the read fails.
    pub deletion_policy: String,
    /// Set if the Secret's type is not Opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<ExternalSecretTemplate>,
}

/// Properties of the Secret other than its values.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretTemplate {
    /// Type of the Secret.
    #[serde(rename = "type")]
    pub type_: String,
    /// Version of the template language. Trellis writes no templates.
    pub engine_version: String,
    /// How values from a template combine with those that were read.
    pub merge_policy: String,
}

/// One key of the Secret.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretData {
    /// The key in the Secret.
    pub secret_key: String,
    /// Location of the value in the store.
    pub remote_ref: ExternalSecretRemoteRef,
}

/// Location of a value in the store. The policies below take the value unchanged.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretRemoteRef {
    /// Path in the store.
    pub key: String,
    /// Property within the value at that path. Absent: the whole value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
    /// How keys are renamed when all keys are read.
    pub conversion_strategy: String,
    /// How the value is decoded.
    pub decoding_strategy: String,
    /// Policy for the value's metadata: read or ignored.
    pub metadata_policy: String,
}
