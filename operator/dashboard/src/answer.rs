//! Answers of the routes: JSON, or the reason of a refusal.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use trellis_reads::text::sanitize;
use trellis_reads::{ReadError, ReadFailure};

use crate::compression;

/// Why a request got no data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Refusal {
    error: RefusalBody,
    #[serde(skip)]
    status: StatusCode,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct RefusalBody {
    kind: &'static str,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            error: RefusalBody {
                kind,
                message: sanitize(message.into()),
            },
            status,
        }
    }

    /// The page has no key, or a void one.
    pub(crate) fn no_key(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "key", message)
    }

    /// The cluster does not know the user.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// The request is for another host.
    pub(crate) fn misdirected(message: impl Into<String>) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, "host", message)
    }

    /// A page of another origin made the request.
    pub(crate) fn foreign_origin(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "origin", message)
    }

    /// The request cannot be understood.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// The object or the path does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "notFound", message)
    }

    /// A fault of this server.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.error.message
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        let (status, kind) = match error.failure {
            ReadFailure::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
            ReadFailure::Denied => (StatusCode::FORBIDDEN, "denied"),
            ReadFailure::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            ReadFailure::Unreachable => (StatusCode::BAD_GATEWAY, "unreachable"),
            ReadFailure::Invalid => (StatusCode::BAD_REQUEST, "invalid"),
            ReadFailure::Elsewhere => (StatusCode::NOT_FOUND, "notFound"),
        };
        Self::new(status, kind, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        (self.status, data_headers(), body).into_response()
    }
}

/// Answers with this object, compressed if the client accepts that.
pub(crate) fn json(request: &HeaderMap, object: &impl Serialize) -> Result<Response, Refusal> {
    let body = serde_json::to_vec(object)
        .map_err(|error| Refusal::internal(format!("the answer cannot be written: {error}")))?;
    let mut answer = data_headers();
    let body = match compression::accepts_gzip(request) {
        true => {
            answer.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            compression::gzip(&body)
        }
        false => body,
    };
    Ok((answer, Bytes::from(body)).into_response())
}

/// The headers of an answer with data. No cache keeps it.
pub(crate) fn data_headers() -> HeaderMap {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::VARY, "Accept-Encoding"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    headers.into_iter().collect()
}
