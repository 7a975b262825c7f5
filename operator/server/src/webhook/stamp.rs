//! Writes the requester stamp of a job, in clusters where no MutatingAdmissionPolicy does.
//!
//! The stamp is not trusted because it comes from here: the ValidatingAdmissionPolicy
//! `trellis-requested-by` refuses a stamp that does not name the user of the request. The rules are
//! those of the policies of that name (`files/requester-policy.yaml` of the chart).

use json_patch::Patch;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionReview, Operation};
use serde_json::json;
use trellis_api::names;
use trellis_cache::policy::stamp_for_user;

use super::answer::{ReviewAnswer, ReviewDecision};
use super::judge::ObjectKind;
use super::review::{self, ReviewRequest};

/// The change by which the object of a request has the right stamp.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StampAnswer {
    /// The stamp is right, or a false claim, which the admission policy refuses.
    Unchanged,
    /// The object with this patch has the right stamp.
    Patched(Patch),
    /// The request could not be read in time. A new job has no stamp then.
    Skipped,
}

impl StampAnswer {
    /// Returns the decision for metrics.
    pub(super) const fn decision(&self) -> ReviewDecision {
        match self {
            Self::Unchanged => ReviewDecision::Passed,
            Self::Patched(_) => ReviewDecision::Stamped,
            Self::Skipped => ReviewDecision::Undecided,
        }
    }

    /// Returns the body of the answer to the request with this uid. Each answer lets the request
    /// pass.
    pub(super) fn into_body(self, uid: String) -> AdmissionReview<DynamicObject> {
        let answer = match &self {
            Self::Skipped => ReviewAnswer::undecided("the requester of the job was not recorded"),
            Self::Unchanged | Self::Patched(_) => ReviewAnswer::passed(),
        };
        let response = answer.into_response(uid.clone());
        let response = match self {
            // A patch of strings always serializes.
            Self::Patched(patch) => response.with_patch(patch).ok(),
            Self::Unchanged | Self::Skipped => Some(response),
        };
        let response = response.unwrap_or_else(|| ReviewAnswer::passed().into_response(uid));
        response.into_review()
    }
}

/// Corrects the stamp of a TrainingJob that a client omits or copies.
pub(super) fn correct_stamp(request: &ReviewRequest) -> StampAnswer {
    let sub_resource = request.sub_resource.as_deref().unwrap_or_default();
    let is_job = ObjectKind::from_request(request) == ObjectKind::Job && sub_resource.is_empty();
    let Some(object) = request.object.as_ref().filter(|_| is_job) else {
        return StampAnswer::Unchanged;
    };
    let given = stamp_text(object);
    let (previous, writes_spec) = match (&request.operation, &request.old_object) {
        (Operation::Create, _) => ("", true),
        (Operation::Update, Some(old)) => (
            stamp_text(old),
            review::object_spec(object) != review::object_spec(old),
        ),
        _ => return StampAnswer::Unchanged,
    };
    let expected = match writes_spec {
        true => stamp_for_user(&request.user_info).unwrap_or_default(),
        false => previous.to_owned(),
    };
    let is_claim = !given.is_empty() && given != previous;
    if given == expected || is_claim {
        return StampAnswer::Unchanged;
    }
    let path = format!(
        "/metadata/annotations/{}",
        names::REQUESTED_BY.replace('/', "~1")
    );
    let operation = match &object.metadata.annotations {
        Some(_) if expected.is_empty() => json!({"op": "remove", "path": path}),
        Some(_) => json!({"op": "add", "path": path, "value": expected}),
        None => json!({"op": "add", "path": "/metadata/annotations",
            "value": {names::REQUESTED_BY: expected}}),
    };
    serde_json::from_value(json!([operation])).map_or(StampAnswer::Unchanged, StampAnswer::Patched)
}

fn stamp_text(object: &DynamicObject) -> &str {
    let annotations = object.metadata.annotations.as_ref();
    let stamp = annotations.and_then(|all| all.get(names::REQUESTED_BY));
    stamp.map_or("", String::as_str)
}

#[cfg(test)]
mod tests;
