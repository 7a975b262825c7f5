//! The events of an audit log (`audit.k8s.io/v1`).

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// One request in an audit log: the fields of an `Event` of `audit.k8s.io/v1` that are read.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// The audit level, such as `RequestResponse`.
    pub level: String,
    /// The stage, such as `ResponseComplete`.
    pub stage: String,
    /// The path and the query of the request.
    #[serde(rename = "requestURI", default)]
    pub request_uri: String,
    /// The verb, such as `create`.
    pub verb: String,
    /// The user of the request.
    #[serde(default)]
    pub user: AuditedUser,
    /// The object of the request. None for a request to no resource.
    pub object_ref: Option<AuditedObject>,
    /// The status of the answer. None before the answer.
    pub response_status: Option<AuditedStatus>,
    /// The body of the request. None if the level does not record it.
    pub request_object: Option<Value>,
    /// The body of the answer. None if the level does not record it.
    pub response_object: Option<Value>,
    /// The time of the stage.
    pub stage_timestamp: Timestamp,
}

impl AuditEvent {
    /// Returns true if the API server has done what the request asks for.
    #[must_use]
    pub fn has_succeeded(&self) -> bool {
        let status = self.response_status.as_ref();
        status.is_some_and(|status| (200..300).contains(&status.code))
    }

    /// Returns true if the request stores nothing.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.request_uri.contains("dryRun=All")
    }
}

/// The user of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AuditedUser {
    /// Name of the user.
    pub username: String,
    /// Groups of the user.
    pub groups: Vec<String>,
}

/// The object of a request. A field is empty if the request does not name it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditedObject {
    /// The API group. Empty for the core group.
    pub api_group: String,
    /// The kind in the plural.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The status of an answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AuditedStatus {
    /// The HTTP code.
    pub code: u16,
}

/// Returns true if a write has removed an object, by the object in the answer. A write that removes
/// the last finalizer of an object that is being deleted does so, too.
#[must_use]
pub fn is_removal(verb: &str, object: &Value) -> bool {
    if text_at(object, "/metadata/deletionTimestamp").is_none() {
        return verb == "delete";
    }
    let finalizers = object.pointer("/metadata/finalizers");
    let has_finalizers = finalizers
        .and_then(Value::as_array)
        .is_some_and(|finalizers| !finalizers.is_empty());
    let grace = object.pointer("/metadata/deletionGracePeriodSeconds");
    grace.and_then(Value::as_i64) == Some(0) && !has_finalizers
}

pub(crate) fn text_at<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    object.pointer(path)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn object_is_gone_after_its_last_finalizer() {
        let stopping = |grace: i64, finalizers: Value| {
            json!({"metadata": {
                "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace,
                "finalizers": finalizers,
            }})
        };
        assert!(is_removal("delete", &json!({"metadata": {}})));
        assert!(!is_removal("patch", &json!({"metadata": {}})));
        assert!(!is_removal("delete", &stopping(30, json!(null))));
        assert!(is_removal("delete", &stopping(0, json!(null))));
        assert!(!is_removal("delete", &stopping(0, json!(["a"]))));
        assert!(is_removal("patch", &stopping(0, json!([]))));
    }
}
