//! Bodies of requests to the webhook.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::LengthLimitError;

use crate::callers::Failure;

/// Largest body: the API server's own limit for a request.
pub(super) const MAX_BODY: usize = 3 << 20;

/// Reads a whole body.
///
/// # Errors
/// If the body is too large, or does not come.
pub(super) async fn read_body(body: Body) -> Result<Bytes, Failure> {
    axum::body::to_bytes(body, MAX_BODY).await.map_err(|error| {
        let is_large =
            std::error::Error::source(&error).is_some_and(|e| e.is::<LengthLimitError>());
        if is_large {
            too_large()
        } else {
            Failure::new(
                StatusCode::BAD_REQUEST,
                format!("the body has not come: {error}"),
            )
        }
    })
}

/// Returns the failure of a body that is too large.
pub(super) fn too_large() -> Failure {
    let message = format!("the body has more than {MAX_BODY} bytes");
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}
