//! Answers a created Forecast: what changes of the cluster do to the jobs.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use kube::Resource;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::Instant;
use trellis_api::visibility::{self, Forecast};
use trellis_forecast::forecast_changes;

use super::forecasts::{MAX_COMPUTE_TIME, MAX_EVENTS};
use super::snapshot_view::SnapshotView;
use crate::callers::{Failure, RequestTurn};
use crate::serve::read_body;

/// Largest question.
const MAX_BODY: usize = 256 << 10;

/// Lets one question at a time be answered, and the scheduler rest between two. In total, answers use
/// at most half a core.
#[derive(Clone, Debug, Default)]
pub(in crate::endpoint) struct ForecastTurn(Arc<Mutex<()>>);

impl ForecastTurn {
    /// Answers the question of a request, once the answers to earlier questions are computed.
    pub(super) async fn serve(
        &self,
        body: Body,
        view: &Arc<SnapshotView>,
        turn: RequestTurn,
    ) -> Result<Response, Failure> {
        let mut question = parse(&read_body(body, MAX_BODY).await?)?;
        let own = self.0.clone().lock_owned().await;
        let (spec, runtime) = (question.spec.clone(), Handle::current());
        let answered = view.run(turn, move |view| {
            let began = Instant::now();
            let answer = forecast_changes(view.snapshot(), &spec, compute_limit);
            // The next question waits, even if the caller is gone by now.
            runtime.spawn(rest(own, began.elapsed()));
            answer
        });
        let status = answered.await?.map_err(|invalid| {
            Failure::new(StatusCode::UNPROCESSABLE_ENTITY, invalid.to_string())
        })?;
        question.status = Some(status);
        Ok((StatusCode::CREATED, Json(question)).into_response())
    }
}

/// Holds the turn for as long as the answer took.
async fn rest(turn: tokio::sync::OwnedMutexGuard<()>, took: Duration) {
    tokio::time::sleep(took).await;
    drop(turn);
}

/// Returns the limit of one forecast.
fn compute_limit() -> impl FnMut(usize) -> bool {
    let began = Instant::now();
    move |moments| moments < MAX_EVENTS && began.elapsed() < MAX_COMPUTE_TIME
}

/// Parses a question. An error names the field.
fn parse(body: &[u8]) -> Result<Forecast, Failure> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let question: Forecast = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, cause) = (error.path().to_string(), error.into_inner());
        Failure::bad_request(format!(
            "{path}: {cause}: `kubectl explain forecasts` describes the fields"
        ))
    })?;
    let (version, kind) = (&question.types.api_version, &question.types.kind);
    if *version != visibility::api_version() || kind != &Forecast::kind(&()) {
        return Err(Failure::bad_request(format!(
            "the body is a {kind} of {version}: a Forecast of {} is needed",
            visibility::api_version()
        )));
    }
    Ok(question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_question_is_refused_with_the_path_of_its_field() {
        let base = r#""apiVersion":"visibility.trellis.dev/v1alpha1","kind":"Forecast""#;
        let refused = |rest: &str| {
            parse(format!("{{{base}{rest}}}").as_bytes())
                .map(|_| ())
                .unwrap_err()
        };
        assert!(parse(format!("{{{base}}}").as_bytes()).is_ok());
        for (rest, words) in [
            (
                r#","spec":{"changes":[{"addNodes":{"like":"a","count":-1}}]}"#,
                "spec.changes[0].addNodes.count",
            ),
            (
                r#","spec":{"changes":[{"eat":{}}]}"#,
                "unknown variant `eat`",
            ),
            (
                r#","spec":{"changes":[{"removeNode":{"name":"a","nome":"b"}}]}"#,
                "unknown field `nome`",
            ),
        ] {
            let failure = refused(rest);
            assert_eq!(failure.code(), 400);
            assert!(failure.to_string().contains(words), "{failure}");
        }
        let other = r#"{"apiVersion":"v1","kind":"Pod"}"#;
        assert_eq!(
            parse(other.as_bytes()).unwrap_err().to_string(),
            "the body is a Pod of v1: a Forecast of visibility.trellis.dev/v1alpha1 is needed"
        );
        assert_eq!(parse(b"").unwrap_err().code(), 400);
    }
}
