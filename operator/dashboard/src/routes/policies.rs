//! `GET /api/policies`: policies with their status, and the jobs that they affect.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use http::HeaderMap;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trellis_reads::policies::{PolicyReads, read_policies};

use crate::answer::{self, Refusal};
use crate::routes::names::check_namespace;
use crate::server::App;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PoliciesQuery {
    namespace: Option<String>,
}

#[derive(Debug, Serialize)]
struct PoliciesAnswer {
    #[serde(flatten)]
    reads: PolicyReads,
    time: Timestamp,
}

pub(crate) async fn list_policies(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    query: Result<Query<PoliciesQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|error| Refusal::invalid(error.body_text()))?;
    let namespace = check_namespace(query.namespace)?;
    let reader = app.credentials.caller(&headers)?.reader;
    let reads = read_policies(&reader, namespace.as_deref()).await?;
    let time = Timestamp::now();
    answer::json(&headers, &PoliciesAnswer { reads, time })
}
