//! `GET /api/namespaces`: the namespaces whose jobs the user may list.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use trellis_api::visibility::VisibleNamespace;
use trellis_reads::namespaces::read_namespaces;

use crate::answer::{self, Refusal};
use crate::server::App;

/// The namespaces, by name.
#[derive(Serialize)]
struct Namespaces {
    time: Timestamp,
    namespaces: Vec<NamespaceAnswer>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NamespaceAnswer {
    name: String,
    /// Number of jobs that have not ended.
    jobs: i64,
    /// True if the user may create jobs.
    may_submit: bool,
}

impl From<VisibleNamespace> for NamespaceAnswer {
    fn from(namespace: VisibleNamespace) -> Self {
        Self {
            name: namespace.metadata.name.unwrap_or_default(),
            jobs: namespace.jobs,
            may_submit: namespace.may_submit,
        }
    }
}

pub(crate) async fn list_namespaces(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let reader = app.credentials.caller(&headers)?.reader;
    let namespaces = read_namespaces(&reader).await?.into_iter();
    let namespaces = namespaces.map(NamespaceAnswer::from).collect();
    let time = Timestamp::now();
    answer::json(&headers, &Namespaces { time, namespaces })
}
