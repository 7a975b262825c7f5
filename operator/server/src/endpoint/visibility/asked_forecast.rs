//! Answers a created Forecast: what changes of the cluster do to the jobs.

use std::sync::Arc;

use axum::http::StatusCode;
use trellis_api::visibility::Forecast;
use trellis_forecast::forecast_changes;

use super::forecasts::compute_limit;
use super::questions::QuestionTurn;
use super::snapshot_view::SnapshotView;
use crate::callers::Failure;

/// Answers a question.
pub(super) async fn answer(
    question: Forecast,
    turn: QuestionTurn,
    view: Arc<SnapshotView>,
) -> Result<Forecast, Failure> {
    let spec = question.spec.clone();
    let compare = move || forecast_changes(view.snapshot(), &spec, compute_limit);
    let status = turn.run(compare).await?;
    let status = status
        .map_err(|invalid| Failure::new(StatusCode::UNPROCESSABLE_ENTITY, invalid.to_string()))?;
    Ok(Forecast {
        status: Some(status),
        ..question
    })
}
