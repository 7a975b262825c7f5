//! AdmissionReviews, `admission.k8s.io/v1`: parsing and serialization.

use kube::Resource;
use kube::core::DynamicObject;
use kube::core::admission::{
    AdmissionRequest, AdmissionReview, META_API_VERSION_V1, META_KIND, Operation,
};
use serde::Deserialize;
use serde_json::Value;

use super::answer::ReviewAnswer;

/// Error for a body that is no review, so that no answer is possible.
#[derive(Debug, thiserror::Error)]
#[error("the body is no AdmissionReview of {META_API_VERSION_V1} with a request: {0}")]
pub(super) struct MalformedReview(String);

impl MalformedReview {
    fn from_error(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// The part of a review that its answer needs. The parser skips the rest without decoding it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewHead {
    api_version: String,
    kind: String,
    request: Option<RequestHead>,
}

#[derive(Deserialize)]
struct RequestHead {
    uid: String,
    namespace: Option<String>,
}

/// Reads the uid of the request. The uid is enough to answer, even if the rest of the body is
/// malformed.
pub(super) fn read_uid(body: &[u8]) -> Result<String, MalformedReview> {
    let head: ReviewHead = serde_json::from_slice(body).map_err(MalformedReview::from_error)?;
    if head.api_version != META_API_VERSION_V1 || head.kind != META_KIND {
        let (version, kind) = (shorten(&head.api_version), shorten(&head.kind));
        return Err(MalformedReview(format!("it is {kind:?} of {version:?}")));
    }
    let request = head.request;
    let uid = request.map(|request| request.uid).unwrap_or_default();
    if uid.is_empty() {
        return Err(MalformedReview("request.uid is missing".to_owned()));
    }
    Ok(uid)
}

/// Reads the namespace of the request. Empty: the request has none, or the body is no review.
pub(super) fn read_namespace(body: &[u8]) -> String {
    let head = serde_json::from_slice::<ReviewHead>(body).ok();
    let request = head.and_then(|head| head.request);
    request
        .and_then(|request| request.namespace)
        .unwrap_or_default()
}

fn shorten(word: &str) -> String {
    word.chars().take(60).collect()
}

/// Request of a review.
pub(super) type ReviewRequest = AdmissionRequest<DynamicObject>;

/// Reads the request of a review.
pub(super) fn parse_request(body: &[u8]) -> Result<ReviewRequest, MalformedReview> {
    let review: AdmissionReview<DynamicObject> =
        serde_json::from_slice(body).map_err(MalformedReview::from_error)?;
    let missing = || MalformedReview("request is missing".to_owned());
    review.request.ok_or_else(missing)
}

/// Returns the spec of an object as the client sent it.
pub(super) fn object_spec(object: &DynamicObject) -> Option<&Value> {
    object.data.get("spec")
}

/// Returns true if the request writes a new spec. Every other request passes at once, and so does a
/// request for an object that is being deleted.
pub(super) fn writes_spec(request: &ReviewRequest) -> bool {
    let Some(object) = &request.object else {
        return false;
    };
    let sub_resource = request.sub_resource.as_deref().unwrap_or_default();
    if !sub_resource.is_empty() || object.metadata.deletion_timestamp.is_some() {
        return false;
    }
    match request.operation {
        Operation::Create => true,
        Operation::Update => {
            request.old_object.as_ref().and_then(object_spec) != object_spec(object)
        }
        Operation::Delete | Operation::Connect => false,
    }
}

/// Returns the body of an answer.
pub(super) fn review_body(answer: ReviewAnswer, uid: String) -> AdmissionReview<DynamicObject> {
    answer.into_response(uid).into_review()
}

/// Returns the object as it will be stored. Its name and namespace may be in the request only.
pub(super) fn decode_object<K>(request: ReviewRequest) -> serde_json::Result<K>
where
    K: Resource<DynamicType = ()> + serde::de::DeserializeOwned,
{
    let object = serde_json::to_value(request.object)?;
    let mut object: K = serde_json::from_value(object)?;
    let meta = object.meta_mut();
    let namespace = request.namespace.filter(|namespace| !namespace.is_empty());
    if meta.namespace.is_none() {
        meta.namespace = namespace;
    }
    if meta.name.is_none() && !request.name.is_empty() {
        meta.name = Some(request.name);
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn uid_error(body: &[u8]) -> String {
        read_uid(body).unwrap_err().to_string()
    }

    #[test]
    fn invalid_review_is_rejected_with_the_reason() {
        let of = |value: Value| uid_error(value.to_string().as_bytes());
        let v1 = "admission.k8s.io/v1";
        assert!(uid_error(b"").contains("EOF"), "{}", uid_error(b""));
        assert!(
            uid_error(b"\xff{").contains("expected"),
            "{}",
            uid_error(b"\xff{")
        );
        let old = of(json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": META_KIND}));
        assert!(
            old.ends_with("it is \"AdmissionReview\" of \"admission.k8s.io/v1beta1\""),
            "{old}"
        );
        let other = of(json!({"apiVersion": v1, "kind": "Status"}));
        assert!(other.contains("it is \"Status\""), "{other}");
        let none = of(json!({"apiVersion": v1, "kind": META_KIND}));
        assert!(none.ends_with("request.uid is missing"), "{none}");
        let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
        let cut = format!("{{\"apiVersion\": {open}");
        assert!(uid_error(cut.as_bytes()).len() < 200);
        // The parser limits the depth of decoded parts, but not of skipped parts.
        let deep = format!(
            "{{\"apiVersion\": \"{v1}\", \"kind\": \"{META_KIND}\", \
             \"request\": {{\"uid\": \"u\", \"object\": {{\"spec\": {open}{close}}}}}}}"
        );
        assert_eq!(read_uid(deep.as_bytes()).unwrap(), "u");
        let error = parse_request(deep.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("recursion limit"), "{error}");
    }

    #[test]
    fn only_requests_that_write_a_spec_are_judged() {
        let of = |operation: &str, now: Value, before: Value| {
            let review = json!({
                "apiVersion": META_API_VERSION_V1, "kind": META_KIND,
                "request": {
                    "uid": "u", "operation": operation, "userInfo": {},
                    "kind": {"group": "trellis.dev", "version": "v1alpha1", "kind": "TrainingJob"},
                    "resource": {"group": "", "version": "", "resource": ""},
                    "object": now, "oldObject": before,
                },
            });
            let body = review.to_string();
            assert_eq!(read_uid(body.as_bytes()).unwrap(), "u");
            writes_spec(&parse_request(body.as_bytes()).unwrap())
        };
        let job = |spec: u8, more: Value| json!({"apiVersion": "v", "kind": "k", "metadata": more, "spec": {"x": spec}});
        assert!(of("CREATE", job(1, json!({})), Value::Null));
        assert!(of("UPDATE", job(2, json!({})), job(1, json!({}))));
        let labels = json!({"labels": {"a": "b"}, "finalizers": ["f"]});
        assert!(!of("UPDATE", job(1, labels), job(1, json!({}))));
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(!of("UPDATE", job(2, going), job(1, json!({}))));
        assert!(!of("DELETE", Value::Null, job(1, json!({}))));
    }
}
