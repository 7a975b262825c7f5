//! Faults that a proxy injects into requests.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

/// The fault to inject into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyFault {
    /// The request passes.
    Pass,
    /// The proxy answers with a status code, and with a `Retry-After` in seconds if given. The
    /// request does not reach the API server.
    Status(u16, Option<u32>),
    /// The connection is cut before the request reaches the API server.
    DropRequest,
    /// The API server handles the request, and the proxy cuts the connection before the answer.
    DropResponse,
    /// The request passes after this time.
    Delay(Duration),
    /// The request passes when the held requests are released
    /// ([`Proxy::release_held_requests`](super::Proxy::release_held_requests)).
    Hold,
    /// The proxy cuts the connection at once, and the API server handles the request when the
    /// held requests are released, as behind a slow proxy.
    DelayUntilHealed,
    /// The request does not reach the API server, and the client gets no answer.
    Hang,
    /// The API server handles the request, and the client gets no answer.
    HangResponse,
    /// The resourceVersion has been compacted: a watch ends with an `ERROR` event of code 410, as
    /// from a real API server. Any other request gets status 410.
    ExpireVersion,
}

impl ProxyFault {
    /// Answers 429 with `Retry-After`.
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        Self::Status(429, Some(retry_after_seconds))
    }

    /// Answers 500.
    pub fn internal_error() -> Self {
        Self::Status(500, None)
    }

    /// Answers 503.
    pub fn unavailable() -> Self {
        Self::Status(503, None)
    }
}

/// Returns the `Status` with which an API server answers for a status code.
pub(super) fn status_body(code: StatusCode) -> Value {
    let reason = match code.as_u16() {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    };
    json!({
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": "made to fail by a test",
        "reason": reason,
        "code": code.as_u16(),
    })
}
