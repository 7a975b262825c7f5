//! `POST /api/plan`: what would become of a job.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;

use crate::answer::{self, Refusal};
use crate::routes::names::check_namespace;
use crate::server::App;

/// Longest wait for a plan.
const PLAN_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanRequest {
    /// Namespace of jobs that name none. None: the namespace of the context.
    namespace: Option<String>,
    yaml: String,
}

pub(crate) async fn plan_jobs(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    request: Result<Json<PlanRequest>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(request) = request.map_err(|error| Refusal::invalid(error.body_text()))?;
    let Some(planner) = app.planner.clone() else {
        return Err(Refusal::not_found(
            "the page in a cluster cannot plan yet: use `trellis plan`, or `trellis dashboard` on your machine",
        ));
    };
    let namespace = check_namespace(request.namespace)?;
    let Ok(turn) = app.plan_turns.clone().try_acquire_owned() else {
        return Err(Refusal::busy(
            "the page makes several plans already: try again in some seconds",
        ));
    };
    let plan = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        planner.plan(namespace.as_deref(), &request.yaml)
    });
    let plan = tokio::time::timeout(PLAN_TIMEOUT, plan).await;
    let plan = plan.map_err(|_| Refusal::timeout("the plan took more than 20 seconds"))?;
    let plan = plan.map_err(|error| Refusal::internal(format!("the plan failed: {error}")))?;
    answer::json(&headers, &plan?)
}
