//! `POST /api/what-if`: the jobs that changes of the cluster move.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::Response;
use http::HeaderMap;
use trellis_api::visibility::ForecastSpec;
use trellis_reads::forecast::ask_forecast;

use crate::answer::{self, Refusal};
use crate::server::App;

/// Answers with the status of a Forecast.
pub(crate) async fn forecast_changes(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    request: Result<Json<ForecastSpec>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(spec) = request.map_err(|error| Refusal::invalid(error.body_text()))?;
    let reader = app.credentials.caller(&headers)?.reader;
    answer::json(&headers, &ask_forecast(&reader, spec).await?)
}
