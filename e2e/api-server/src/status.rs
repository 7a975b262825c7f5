//! Errors, in the form of a real API server.

use http::StatusCode;
use hyper::body::Bytes;
use serde_json::{Map, Value, json};

use crate::kind::Kind;

/// A `Status` of the API: the answer to a refused request.
///
/// Reasons, messages and causes follow `k8s.io/apimachinery/pkg/api/errors`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct Status {
    /// HTTP code.
    pub code: u16,
    /// Reason, such as `Conflict`. Empty: the answer has none.
    pub reason: String,
    /// Message for people.
    pub message: String,
    /// The field `details`. Null: the answer has none.
    pub details: Box<Value>,
    /// The field `metadata.continue` of an expired list.
    pub(crate) continue_token: Option<String>,
}

/// A cause of a refusal, in `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Reason, such as `FieldValueRequired`.
    pub reason: &'static str,
    /// Message for people, without the field.
    pub message: String,
    /// Path of the field, such as `spec.containers[0].name`.
    pub field: String,
}

impl Cause {
    pub(crate) fn new(
        reason: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let (field, message) = (field.into(), message.into());
        Self {
            reason,
            message,
            field,
        }
    }

    /// A required field is absent.
    #[must_use]
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self::new("FieldValueRequired", field, message)
    }

    /// A field has a wrong value.
    #[must_use]
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {value}: {detail}");
        Self::new("FieldValueInvalid", field, message)
    }

    /// A field may not be set or changed so.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }
}

impl Status {
    /// Creates a Status without details.
    #[must_use]
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
            details: Box::default(),
            continue_token: None,
        }
    }

    fn about(mut self, group: &str, resource: &str, name: &str) -> Self {
        let mut details = Map::new();
        for (key, value) in [("name", name), ("group", group), ("kind", resource)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), value.into());
            }
        }
        *self.details = Value::Object(details);
        self
    }

    /// Adds a cause to the details.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        if !self.details.is_object() {
            *self.details = json!({});
        }
        let mut cause = Map::new();
        for (key, value) in [("reason", reason), ("message", message), ("field", field)] {
            if !value.is_empty() {
                cause.insert(key.to_owned(), value.into());
            }
        }
        let causes = &mut self.details["causes"];
        match causes.as_array_mut() {
            Some(causes) => causes.push(Value::Object(cause)),
            None => *causes = json!([cause]),
        }
        self
    }

    /// 400: the request is malformed.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403: admission or the authorizer refuses the request.
    #[must_use]
    pub fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let resource = kind.qualified_plural();
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} \"{name}\" is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(&kind.group, &kind.plural, name)
    }

    /// 404: no object has this name.
    #[must_use]
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.qualified_plural());
        Self::new(404, "NotFound", message).about(&kind.group, &kind.plural, name)
    }

    /// 409: an object with this name exists.
    #[must_use]
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.qualified_plural());
        Self::new(409, "AlreadyExists", message).about(&kind.group, &kind.plural, name)
    }

    /// 409: a precondition of a write does not hold.
    #[must_use]
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        Self::conflict_on(&kind.group, &kind.plural, name, why)
    }

    pub(crate) fn conflict_on(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let qualified = qualify(resource, group);
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(group, resource, name)
    }

    /// 409: the object changed after the caller read it.
    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// 422: the object is invalid.
    #[must_use]
    pub fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_of(&kind.group, &kind.kind, name, causes)
    }

    pub(crate) fn invalid_of(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let bodies: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let bodies = match bodies.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {bodies}", qualify(kind, group));
        let status = Self::new(422, "Invalid", message).about(group, kind, name);
        causes.iter().fold(status, |status, cause| {
            status.with_cause(cause.reason, &cause.message, &cause.field)
        })
    }

    /// 429: the caller should try again later.
    #[must_use]
    pub fn too_many_requests(message: &str, retry_after_seconds: u32) -> Self {
        let mut status = Self::new(429, "TooManyRequests", message);
        *status.details = json!({});
        if retry_after_seconds > 0 {
            status.details["retryAfterSeconds"] = retry_after_seconds.into();
        }
        status
    }

    /// 410: the history does not reach back so far.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 404: the server serves no such path.
    pub(crate) fn unknown_path() -> Self {
        let message = "the server could not find the requested resource";
        let mut status = Self::new(404, "NotFound", message);
        *status.details = json!({});
        status
    }

    /// Adds details without content, as a real server does for errors of its handlers.
    pub(crate) fn with_empty_details(mut self) -> Self {
        *self.details = json!({});
        self
    }

    /// 405: the resource has no such verb.
    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut status = Self::new(405, "MethodNotAllowed", message);
        *status.details = json!({});
        status
    }

    /// 415: the server does not read this content type.
    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Returns the JSON of the answer.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut value = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": self.message,
        });
        if let Some(token) = &self.continue_token {
            value["metadata"]["continue"] = token.as_str().into();
        }
        if !self.reason.is_empty() {
            value["reason"] = self.reason.as_str().into();
        }
        if !self.details.is_null() {
            value["details"] = (*self.details).clone();
        }
        value["code"] = self.code.into();
        value
    }

    pub(crate) fn to_answer(&self) -> http::Response<Bytes> {
        let retry = self.details.get("retryAfterSeconds").cloned();
        let mut answer = json_answer(self.code, &self.to_json());
        if let Some(seconds) = retry.and_then(|seconds| seconds.as_u64()) {
            answer.headers_mut().insert("retry-after", seconds.into());
        }
        answer
    }
}

/// Returns `pods` or `leases.coordination.k8s.io`.
pub(crate) fn qualify(resource: &str, group: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

/// Returns the Status of a success, with the code 201.
pub(crate) fn success_answer() -> http::Response<Bytes> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    json_answer(201, &status)
}

pub(crate) fn json_answer(code: u16, value: &Value) -> http::Response<Bytes> {
    bytes_answer(code, Bytes::from(value.to_string()))
}

pub(crate) fn bytes_answer(code: u16, body: Bytes) -> http::Response<Bytes> {
    let code = StatusCode::from_u16(code).expect("codes are valid");
    let answer = http::Response::builder()
        .status(code)
        .header("content-type", "application/json");
    answer.body(body).expect("the headers are valid")
}

pub(crate) fn text_answer(code: u16, text: &'static str) -> http::Response<Bytes> {
    let mut answer = bytes_answer(code, Bytes::from_static(text.as_bytes()));
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert("content-type", plain);
    answer
}

impl Status {
    /// 403: the authorizer refuses a request, maybe to a kind that the server does not know.
    pub(crate) fn forbidden_access(access: &crate::server::Access<'_>, why: &str) -> Self {
        let resource = qualify(access.resource, access.group);
        let message = match access.name {
            "" => format!("{resource} is forbidden: {why}"),
            name => format!("{resource} \"{name}\" is forbidden: {why}"),
        };
        let status = Self::new(403, "Forbidden", message);
        status.about(access.group, access.resource, access.name)
    }
}
