//! The attempts of jobs that have ended.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use http::HeaderMap;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trellis_api::visibility::EndedAttempt;
use trellis_reads::attempts::read_attempts;
use trellis_reads::queue::JobScope;

use crate::answer::{self, Refusal};
use crate::routes::names::check_namespace;
use crate::server::App;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AttemptsQuery {
    /// None: all namespaces, or that of the user.
    namespace: Option<String>,
}

/// Most attempts of an answer. The page reads it again every 15 seconds.
const MAX_ATTEMPTS: usize = 2_000;

/// The content of `trellis history -o json`, in the order of their ends. If there are too many, the
/// oldest are missing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndedAttempts {
    time: Timestamp,
    attempts: Vec<Arc<EndedAttempt>>,
}

pub(crate) async fn list_attempts(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    query: Result<Query<AttemptsQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|error| Refusal::invalid(error.body_text()))?;
    let reader = app.credentials.caller(&headers)?.reader;
    let (reader, scope) = match check_namespace(query.namespace)? {
        Some(namespace) => (reader.in_namespace(&namespace), JobScope::Own),
        None => (reader, JobScope::AllOrOwn),
    };
    let mut attempts = read_attempts(&reader, scope).await?.attempts;
    attempts.drain(..attempts.len().saturating_sub(MAX_ATTEMPTS));
    let time = Timestamp::now();
    answer::json(&headers, &EndedAttempts { time, attempts })
}
