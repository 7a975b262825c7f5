//! The Secrets that a job names: those of its namespace, and those that are kept
//! outside the cluster.

use std::collections::BTreeMap;

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Seconds after which the values of a Secret are read again where nothing is
/// given: External Secrets Operator's own.
const DEFAULT_REFRESH_SECONDS: u32 = 3600;

/// A Secret that the job's pods need: one of its namespace, or one that External Secrets
/// Operator makes from a store outside the cluster.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::SECRET_SOURCE.to_cel_rule())]
pub struct JobSecret {
    /// Name by which task groups name it in env, envFrom, mounts and imagePullSecrets. Without
    /// `store`: name of a Secret of the job's namespace.
    #[schemars(length(max = 63))]
    #[garde(custom(rules::secret_name), custom(rules::secret_source(self)))]
    #[x_kube(validation = rules::SECRET_NAME.to_cel_rule())]
    pub name: String,
    /// The store that its values are kept in. Absent: it is a Secret that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub store: Option<SecretStore>,
    /// Each key of the Secret, with the path of its value in the store: `ml/wandb`, or
    /// `ml/wandb#token` for one property of what is kept there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32, "additionalProperties" = {"type": "string", "maxLength": 512}))]
    #[garde(custom(rules::secret_data))]
    #[x_kube(validation = rules::SECRET_DATA.to_cel_rule())]
    pub data: BTreeMap<String, String>,
    /// Seconds after which its values are read from the store again. Absent: 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::secret_refresh)))]
    #[x_kube(validation = rules::SECRET_REFRESH.to_cel_rule())]
    pub refresh_seconds: Option<i64>,
}

/// A store of secrets, as External Secrets Operator knows it.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct SecretStore {
    /// SecretStore: one of the job's namespace; ClusterSecretStore: one of the cluster.
    pub kind: SecretStoreKind,
    /// Name of the store.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::object_name))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub name: String,
}

/// SecretStore: one of the job's namespace; ClusterSecretStore: one of the cluster.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord,
)]
pub enum SecretStoreKind {
    /// One of the job's namespace.
    SecretStore,
    /// One of the cluster.
    ClusterSecretStore,
}

impl SecretStoreKind {
    /// The word itself.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SecretStore => "SecretStore",
            Self::ClusterSecretStore => "ClusterSecretStore",
        }
    }
}

/// Where one value is kept in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteValue<'a> {
    /// The path.
    pub path: &'a str,
    /// The property of what is kept there. None: all of it.
    pub property: Option<&'a str>,
}

impl<'a> RemoteValue<'a> {
    /// What [`JobSecret::data`] has written: `path`, or `path#property`. No path has a `#`.
    ///
    /// ```
    /// use trellis_api::job::RemoteValue;
    /// let written = RemoteValue::of("ml/wandb#users.0.token");
    /// assert_eq!(written, RemoteValue { path: "ml/wandb", property: Some("users.0.token") });
    /// assert_eq!(RemoteValue::of("ml/wandb"), RemoteValue { path: "ml/wandb", property: None });
    /// ```
    #[must_use]
    pub fn parse(written: &'a str) -> Self {
        match written.split_once('#') {
            Some((path, property)) => Self {
                path,
                property: Some(property),
            },
            None => Self {
                path: written,
                property: None,
            },
        }
    }
}

impl JobSecret {
    /// Seconds after which its values are read again. An hour for what validation refuses.
    #[must_use]
    pub fn refresh_seconds(&self) -> u32 {
        let given = self.refresh_seconds.and_then(|s| u32::try_from(s).ok());
        given.unwrap_or(DEFAULT_REFRESH_SECONDS)
    }
}
