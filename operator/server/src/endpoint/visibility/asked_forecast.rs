//! Answers a created Forecast: what changes of the cluster do to the jobs.

use std::sync::Arc;

use axum::http::StatusCode;
use k8s_openapi::api::authentication::v1::UserInfo;
use trellis_api::visibility::Forecast;
use trellis_forecast::forecast_changes;

use super::forecasts::compute_limit;
use super::questions::QuestionTurns;
use super::snapshot_view::SnapshotView;
use crate::callers::{Failure, RequestTurn};

/// Answers the question of a user.
pub(super) async fn answer(
    question: Forecast,
    turns: &QuestionTurns,
    user: &UserInfo,
    view: Arc<SnapshotView>,
    turn: RequestTurn,
) -> Result<Forecast, Failure> {
    let spec = question.spec.clone();
    let compare = move || forecast_changes(view.snapshot(), &spec, compute_limit);
    let status = turns.answer(user, turn, compare).await?;
    let status = status
        .map_err(|invalid| Failure::new(StatusCode::UNPROCESSABLE_ENTITY, invalid.to_string()))?;
    Ok(Forecast {
        status: Some(status),
        ..question
    })
}
