//! Error answers.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::access::AccessDenied;

/// An error answer, in the format of the API server.
#[derive(Debug)]
pub struct Failure {
    code: StatusCode,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    /// HTTP status of the answer.
    pub(crate) fn code(&self) -> u16 {
        self.code.as_u16()
    }

    pub(crate) fn bad_request(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn no_such_path(uri: &Uri) -> Self {
        let message = format!(
            "there is nothing at {:?}: ask for /v1alpha1/waiting, /v1alpha1/snapshot, /metrics or, with --visibility, /apis",
            uri.path()
        );
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn no_such_resource(plural: &str) -> Self {
        let message = format!(
            "the server could not find the requested resource: {plural:?} is none of {}",
            trellis_api::visibility::GROUP
        );
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn too_many_requests() -> Self {
        let message = "too many requests are being answered: ask again in a second";
        Self::new(StatusCode::TOO_MANY_REQUESTS, message)
    }

    pub(crate) fn too_many_watches() -> Self {
        let message = "too many watches are open: close one, or poll with lists";
        Self::new(StatusCode::TOO_MANY_REQUESTS, message)
    }

    /// The changes since a version are no longer known.
    pub(crate) fn expired_version() -> Self {
        let message = "the resourceVersion is too old, or of another leader: list again";
        Self::new(StatusCode::GONE, message)
    }

    pub(crate) fn standby() -> Self {
        let message = "this process stands by, and knows nothing: ask the one that leads";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    pub(crate) fn timed_out() -> Self {
        let message = "the answer took too long: ask again in a while";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    pub(crate) fn unavailable() -> Self {
        let message = "the scheduler does not answer: ask again in a while";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

impl From<AccessDenied> for Failure {
    fn from(denied: AccessDenied) -> Self {
        let code = match denied {
            AccessDenied::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            AccessDenied::Forbidden(_) => StatusCode::FORBIDDEN,
            AccessDenied::Unknown(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(code, denied.to_string())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// The `Status` object of the API server.
    pub(crate) fn status(&self) -> Value {
        let reason = match self.code {
            StatusCode::GONE => "Expired".to_owned(),
            StatusCode::UNPROCESSABLE_ENTITY => "Invalid".to_owned(),
            code => code.canonical_reason().unwrap_or_default().replace(' ', ""),
        };
        json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": self.code.as_u16(), "message": self.message, "reason": reason,
        })
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.code, Json(self.status())).into_response();
        let comes_again = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        if comes_again.contains(&self.code) {
            // Clients of the API server wait for this long and then retry.
            let second = HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, second);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retryable_failure_has_a_retry_after_header() {
        for (failure, after) in [
            (Failure::too_many_requests(), Some("1")),
            (Failure::standby(), Some("1")),
            (Failure::unavailable(), Some("1")),
            (Failure::bad_request(String::new()), None),
        ] {
            let response = failure.into_response();
            let retry_after = response.headers().get(header::RETRY_AFTER);
            assert_eq!(retry_after.map(|value| value.to_str().unwrap()), after);
        }
    }
}
