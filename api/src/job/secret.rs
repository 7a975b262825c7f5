//! The Secrets that a job names: Secrets of its namespace, and values from stores outside the
//! cluster.

use std::collections::BTreeMap;

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Default of `refreshSeconds`, the same as External Secrets Operator's.
const DEFAULT_REFRESH_SECONDS: u32 = 3600;

/// A Secret that the job's pods need: an existing Secret of its namespace, or a Secret that
/// External Secrets Operator creates from a store outside the cluster.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::SECRET_SOURCE.to_cel_rule())]
pub struct JobSecret {
    /// Name by which task groups refer to the Secret in env, envFrom, mounts and imagePullSecrets.
    /// Without `store`: name of a Secret in the job's namespace.
    #[schemars(length(max = 63))]
    #[garde(custom(rules::secret_name), custom(rules::secret_source(self)))]
    #[x_kube(validation = rules::SECRET_NAME.to_cel_rule())]
    pub name: String,
    /// The store with the Secret's values. Absent: the Secret already exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub store: Option<SecretStore>,
    /// Keys of the Secret, each with the path of its value in the store: `ml/wandb`, or
    /// `ml/wandb#token` for one property of that value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32, "additionalProperties" = {"type": "string", "maxLength": 512}))]
    #[garde(custom(rules::secret_data))]
    #[x_kube(validation = rules::SECRET_DATA.to_cel_rule())]
    pub data: BTreeMap<String, String>,
    /// Seconds between two reads of the values from the store. Absent: 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::secret_refresh)))]
    #[x_kube(validation = rules::SECRET_REFRESH.to_cel_rule())]
    pub refresh_seconds: Option<i64>,
}

/// A store of External Secrets Operator.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct SecretStore {
    /// SecretStore: a store of the job's namespace; ClusterSecretStore: a store of the cluster.
    pub kind: SecretStoreKind,
    /// Name of the store.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::object_name))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub name: String,
}

/// SecretStore: a store of the job's namespace; ClusterSecretStore: a store of the cluster.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord,
)]
pub enum SecretStoreKind {
    /// A store of the job's namespace.
    SecretStore,
    /// A store of the cluster.
    ClusterSecretStore,
}

impl SecretStoreKind {
    /// Returns the kind as Kubernetes writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SecretStore => "SecretStore",
            Self::ClusterSecretStore => "ClusterSecretStore",
        }
    }
}

/// Location of one value in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteValue<'a> {
    /// Path in the store.
    pub path: &'a str,
    /// Property within the value at that path. None: the whole value.
    pub property: Option<&'a str>,
}

impl<'a> RemoteValue<'a> {
    /// Parses a value of [`JobSecret::data`]: `path`, or `path#property`. A path contains no `#`.
    ///
    /// ```
    /// use trellis_api::job::RemoteValue;
    /// let written = RemoteValue::parse("ml/wandb#users.0.token");
    /// assert_eq!(written, RemoteValue { path: "ml/wandb", property: Some("users.0.token") });
    /// assert_eq!(RemoteValue::parse("ml/wandb"), RemoteValue { path: "ml/wandb", property: None });
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
    /// Returns the seconds between two reads of the values. Values that validation refuses give
    /// 3600.
    #[must_use]
    pub fn refresh_seconds(&self) -> u32 {
        let given = self.refresh_seconds.and_then(|s| u32::try_from(s).ok());
        given.unwrap_or(DEFAULT_REFRESH_SECONDS)
    }
}
