//! Answers a created Forecast: what changes of the cluster do to the jobs.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Resource;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::Instant;
use trellis_api::visibility::{self, Forecast};
use trellis_forecast::forecast_changes;

use super::forecasts::compute_limit;
use super::snapshot_view::SnapshotView;
use crate::callers::fair_turns::FairTurns;
use crate::callers::{Failure, RequestTurn};
use crate::serve::{late_body, read_body};

/// Largest question.
const MAX_BODY: usize = 256 << 10;
/// Longest wait for a question.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Most questions at once. One user may ask half of them.
const MAX_QUESTIONS: usize = 2;
/// Fields of a question.
const FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Lets one question at a time be answered, and the scheduler rest between two. In total, answers use
/// at most half a core.
pub(in crate::endpoint) struct ForecastTurns {
    computing: Arc<Mutex<()>>,
    /// Places of questions, by user. Each keeps one of the turns of all requests while it waits.
    places: FairTurns<String>,
}

impl Default for ForecastTurns {
    fn default() -> Self {
        Self {
            computing: Arc::default(),
            places: FairTurns::half_per_caller(MAX_QUESTIONS),
        }
    }
}

impl ForecastTurns {
    /// Answers the question of a user, once the answer to an earlier question is computed. Fails if
    /// too many questions wait.
    pub(super) async fn serve(
        &self,
        question: Forecast,
        user: &UserInfo,
        view: &Arc<SnapshotView>,
        turn: RequestTurn,
    ) -> Result<Response, Failure> {
        let name = user.username.clone().unwrap_or_default();
        let place = self.places.try_acquire(name);
        let place = place.ok_or_else(Failure::too_many_requests)?;
        let own = self.computing.clone().lock_owned().await;
        let (spec, runtime) = (question.spec.clone(), Handle::current());
        let answered = view.run((turn, place), move |view| {
            let began = Instant::now();
            let answer = forecast_changes(view.snapshot(), &spec, compute_limit);
            // The next question waits, even if the caller is gone by now.
            runtime.spawn(rest(own, began.elapsed()));
            answer
        });
        let status = answered.await?.map_err(|invalid| {
            Failure::new(StatusCode::UNPROCESSABLE_ENTITY, invalid.to_string())
        })?;
        let answer = Forecast {
            status: Some(status),
            ..question
        };
        Ok((StatusCode::CREATED, Json(answer)).into_response())
    }
}

/// Reads the question in the body of a request.
pub(super) async fn read_question(body: Body) -> Result<Forecast, Failure> {
    let read = tokio::time::timeout(READ_TIMEOUT, read_body(body, MAX_BODY)).await;
    parse(&read.map_err(|_| late_body(READ_TIMEOUT))??)
}

/// Holds the turn for as long as the answer took.
async fn rest(turn: tokio::sync::OwnedMutexGuard<()>, took: Duration) {
    tokio::time::sleep(took).await;
    drop(turn);
}

/// Parses a question. An error names the field.
fn parse(body: &[u8]) -> Result<Forecast, Failure> {
    let malformed =
        |error: serde_json::Error| Failure::bad_request(format!("the body is no JSON: {error}"));
    let value: Value = serde_json::from_slice(body).map_err(malformed)?;
    let mut fields = value
        .as_object()
        .into_iter()
        .flat_map(|object| object.keys());
    if let Some(unknown) = fields.find(|field| !FIELDS.contains(&field.as_str())) {
        let message = format!(
            "{unknown}: unknown field: a Forecast has {}",
            FIELDS.join(", ")
        );
        return Err(Failure::bad_request(message));
    }
    let question: Forecast = serde_path_to_error::deserialize(value).map_err(|error| {
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
        for no_json in [&b""[..], b"{", br#"{"kind":"Forecast"} more"#] {
            let failure = parse(no_json).unwrap_err();
            assert_eq!(failure.code(), 400);
            assert!(failure.to_string().contains("no JSON"), "{failure}");
        }
        let failure = refused(r#","specs":{}"#);
        assert!(
            failure.to_string().contains("specs: unknown field"),
            "{failure}"
        );
    }

    #[tokio::test]
    async fn body_that_does_not_come_ends_with_408() {
        tokio::time::pause();
        let never = futures::stream::pending::<Result<axum::body::Bytes, std::io::Error>>();
        let failure = read_question(Body::from_stream(never)).await.unwrap_err();
        assert_eq!(failure.code(), 408);
    }
}
