//! `POST /api/plan`: what would become of jobs.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;

use crate::answer::{self, Refusal};
use crate::plan::{PlanAnswer, PlanText};
use crate::routes::names::check_namespace;
use crate::server::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanRequest {
    /// Namespace of jobs that name none. None: the namespace of the context, if there is one.
    namespace: Option<String>,
    yaml: String,
}

pub(crate) async fn plan_jobs(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    request: Result<Json<PlanRequest>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(request) = request.map_err(|error| Refusal::invalid(error.body_text()))?;
    let reader = app.credentials.caller(&headers)?.reader;
    let namespace = check_namespace(request.namespace)?;
    let of_context = || app.credentials.context_namespace().map(str::to_owned);
    let namespace = namespace.or_else(of_context);
    // A long text takes a while.
    let text =
        tokio::task::spawn_blocking(move || PlanText::read(&request.yaml, namespace.as_deref()));
    let text = text.await;
    let text = text.map_err(|error| Refusal::internal(format!("the plan failed: {error}")))?;
    let answer = match text {
        Ok(text) => PlanAnswer::ask(&reader, text).await?,
        Err(problems) => PlanAnswer::from_problems(problems),
    };
    answer::json(&headers, &answer)
}
