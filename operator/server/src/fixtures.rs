//! The parsers of requests, for the fuzz targets.

use axum::http::HeaderMap;
use axum::http::request::Parts;
use k8s_openapi::api::authentication::v1::UserInfo;
use serde_json::Value;

/// Parses a request to the visibility API, and returns its verb, or `document`.
///
/// # Errors
/// The HTTP status of the refusal.
pub fn parse_visibility_request(head: &Parts) -> Result<&'static str, u16> {
    crate::endpoint::parse_request(head).map_err(|failure| failure.code())
}

/// Returns the user that the front proxy names in the usual headers.
///
/// # Errors
/// Why the headers name no user.
pub fn front_proxy_user(headers: &HeaderMap) -> Result<UserInfo, String> {
    crate::callers::front_proxy::user_in_usual_headers(headers)
}

/// Answers an AdmissionReview in a cluster with the namespace `ns`, a default queue and the
/// policies of a fresh install.
///
/// # Errors
/// Why the body is no review.
pub fn answer_review(body: &[u8]) -> Result<Value, String> {
    crate::webhook::fixtures::answer_review(body)
}

/// Answers an AdmissionReview by the requester stamp of its job.
///
/// # Errors
/// If the body is no AdmissionReview.
pub fn answer_stamp(body: &[u8]) -> Result<Value, String> {
    crate::webhook::fixtures::answer_stamp(body)
}
