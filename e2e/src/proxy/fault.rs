//! Faults that a proxy injects into requests.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

/// The fault to inject into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyFault {
    /// It goes through.
    Pass,
    /// It is answered with a status code, and a `Retry-After` in seconds if given, and does not
    /// reach the API server.
    Status(u16, Option<u32>),
    /// The connection is cut before the request reaches the API server.
    DropRequest,
    /// The API server acts on the request, and the connection is cut instead of its answer.
    DropResponse,
    /// It goes through after that long.
    Delay(Duration),
    /// It goes through when the proxy is healed
    /// ([`Proxy::remove_faults`](super::Proxy::remove_faults)).
    Hold,
    /// The connection is cut at once, and the API server acts on the request when the proxy is
    /// healed, as behind a proxy that is slow.
    DelayUntilHealed,
    /// It does not reach the API server, and no answer ever comes.
    Hang,
    /// The API server acts on the request, and no answer ever comes.
    HangResponse,
    /// Its resourceVersion has been compacted away: a watch ends with an `ERROR` event of code
    /// 410, as from a real API server; anything else is answered with 410.
    ExpireVersion,
}

impl ProxyFault {
    /// 429 with `Retry-After`.
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        Self::Status(429, Some(retry_after_seconds))
    }

    /// 500.
    pub fn internal_error() -> Self {
        Self::Status(500, None)
    }

    /// 503.
    pub fn unavailable() -> Self {
        Self::Status(503, None)
    }
}

/// The body that an API server would give to a status code: a `Status`.
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
