//! The ExternalSecrets of jobs, with the fields that show whether their Secret exists.

use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use trellis_api::external_secret::ExternalSecret;

use super::slim::slim;

/// Reasons with which the condition Ready may be True although there is no Secret
/// (`ConditionReasonSecretDeleted`, `ConditionReasonSecretMissing`).
const REASONS_WITHOUT_SECRET: [&str; 2] = ["SecretDeleted", "SecretMissing"];

/// An ExternalSecret. Its spec is compared as a whole.
#[derive(Resource, Serialize, Deserialize, Clone, Debug)]
#[resource(inherit = "ExternalSecret")]
pub struct SlimExternalSecret {
    /// Metadata.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Spec, as the API server writes it.
    pub spec: Option<Box<RawValue>>,
    /// Status.
    #[serde(default, skip_serializing)]
    pub status: SlimExternalSecretStatus,
}

/// The fields of the status that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimExternalSecretStatus {
    conditions: Vec<Condition>,
    /// `<generation>-<hash>` of the object from which the Secret was last written.
    synced_resource_version: Option<String>,
}

/// A condition.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
}

impl SlimExternalSecret {
    /// Returns why the Secret is missing or outdated, in the words of the object's condition. None
    /// if it is current.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if self.metadata.deletion_timestamp.is_some() {
            return Some("it is being deleted, and is made anew".to_owned());
        }
        let mut conditions = self.status.conditions.iter();
        let Some(ready) = conditions.find(|c| c.type_ == "Ready") else {
            return Some("External Secrets Operator has not said anything about it yet".to_owned());
        };
        let has_secret = !REASONS_WITHOUT_SECRET.contains(&ready.reason.as_str());
        if ready.status != "True" || !has_secret {
            return Some(format!("{}: {}", ready.reason, ready.message));
        }
        let synced = self.status.synced_resource_version.as_deref();
        let synced = synced.and_then(|version| version.split_once('-')?.0.parse::<i64>().ok());
        // A version of External Secrets Operator with another format: its condition is trusted.
        let is_current =
            synced.is_none_or(|generation| Some(generation) == self.metadata.generation);
        (!is_current).then(|| "it has changed, and is being read anew".to_owned())
    }

    /// Returns true if no field that Trellis reads has changed: External Secrets Operator refreshes
    /// the object every hour.
    #[must_use]
    pub fn is_equal_for_jobs(&self, other: &Self) -> bool {
        let read = |object: &Self| {
            let meta = &object.metadata;
            (
                meta.uid.clone(),
                meta.generation,
                meta.deletion_timestamp.is_some(),
                meta.labels.clone(),
                meta.owner_references.clone(),
                object.problem(),
            )
        };
        read(self) == read(other)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(status: Value) -> SlimExternalSecret {
        serde_json::from_value(json!({
            "metadata": {"name": "j-wandb", "generation": 2}, "spec": {}, "status": status,
        }))
        .unwrap()
    }

    fn ready(status: &str, reason: &str, synced: Value) -> Value {
        json!({
            "conditions": [{"type": "Ready", "status": status, "reason": reason, "message": "why"}],
            "refreshTime": "2026-01-01T00:00:00Z",
            "syncedResourceVersion": synced,
        })
    }

    #[test]
    fn external_secret_is_ready_when_its_current_spec_is_synced() {
        for (status, words) in [
            (json!({}), Some("has not said anything")),
            (
                ready("False", "SecretSyncedError", json!("1-a")),
                Some("SecretSyncedError: why"),
            ),
            (
                ready("True", "SecretDeleted", json!("2-a")),
                Some("SecretDeleted: why"),
            ),
            (
                ready("True", "SecretSynced", json!("1-a")),
                Some("read anew"),
            ),
            (ready("True", "SecretSynced", json!("2-a")), None),
            (ready("True", "SecretSynced", json!("other words")), None),
            (ready("True", "SecretSynced", Value::Null), None),
        ] {
            let problem = object(status.clone()).problem();
            match words {
                None => assert_eq!(problem, None, "{status}"),
                Some(words) => assert!(problem.unwrap().contains(words), "{status}"),
            }
        }
    }

    #[test]
    fn refresh_of_an_external_secret_is_no_change() {
        let before = object(ready("True", "SecretSynced", json!("2-a")));
        let mut later = before.clone();
        later.metadata.resource_version = Some("7".to_owned());
        assert!(before.is_equal_for_jobs(&later));
        assert!(!before.is_equal_for_jobs(&object(ready(
            "False",
            "SecretSyncedError",
            json!("2-a")
        ))));
        later.metadata.labels = Some(Default::default());
        assert!(!before.is_equal_for_jobs(&later));
    }
}
