//! Bodies of requests.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::LengthLimitError;

use crate::callers::Failure;

/// Reads a whole body of at most `limit` bytes.
///
/// # Errors
/// If the body is too large, or does not come.
pub(crate) async fn read_body(body: Body, limit: usize) -> Result<Bytes, Failure> {
    axum::body::to_bytes(body, limit).await.map_err(|error| {
        let is_large =
            std::error::Error::source(&error).is_some_and(|e| e.is::<LengthLimitError>());
        if is_large {
            too_large(limit)
        } else {
            Failure::new(
                StatusCode::BAD_REQUEST,
                format!("the body has not come: {error}"),
            )
        }
    })
}

/// Returns the failure of a body that is too large.
pub(crate) fn too_large(limit: usize) -> Failure {
    let message = format!("the body has more than {limit} bytes");
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// Returns the failure of a body that has not come in time.
pub(crate) fn late_body(timeout: Duration) -> Failure {
    let message = format!("the body has not come within {timeout:?}: send it at once");
    Failure::new(StatusCode::REQUEST_TIMEOUT, message)
}
