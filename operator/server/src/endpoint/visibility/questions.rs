//! Questions that clients ask by creating an object: reads them, and lets one at a time be answered.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Resource;
use kube::api::TypeMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;
use trellis_api::visibility::{self, Forecast, Plan};
use trellis_machine::threads;

use crate::callers::fair_turns::{FairTurn, FairTurns};
use crate::callers::{Failure, RequestTurn};
use crate::serve::{late_body, read_body};

/// Largest question.
const MAX_BODY: usize = 256 << 10;
/// Longest wait for a question.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Most questions at once. One user may ask half of them.
const MAX_QUESTIONS: usize = 4;
/// Fields of a question.
const FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// A kind whose objects are questions.
pub(super) trait Question: Resource<DynamicType = ()> + DeserializeOwned {
    /// Returns group, version and kind, as the client wrote them.
    fn types(&self) -> &TypeMeta;
}

impl Question for Forecast {
    fn types(&self) -> &TypeMeta {
        &self.types
    }
}

impl Question for Plan {
    fn types(&self) -> &TypeMeta {
        &self.types
    }
}

/// Lets one question at a time be answered, and the scheduler rest between two. In total, answers use
/// at most half a core.
pub(in crate::endpoint) struct QuestionTurns {
    computing: Arc<Mutex<()>>,
    /// Places of questions, by user. Each keeps one of the turns of all requests while it waits.
    places: FairTurns<String>,
}

impl Default for QuestionTurns {
    fn default() -> Self {
        Self {
            computing: Arc::default(),
            places: FairTurns::half_per_caller(MAX_QUESTIONS),
        }
    }
}

/// The turn of one question.
pub(super) struct QuestionTurn {
    computing: OwnedMutexGuard<()>,
    /// The turn of the request, and the place of the question.
    places: (RequestTurn, FairTurn),
}

impl QuestionTurns {
    /// Returns the turn for the question of a user, once the answer to an earlier question is computed.
    /// Fails if too many questions wait.
    pub(super) async fn begin(
        &self,
        user: &UserInfo,
        turn: RequestTurn,
    ) -> Result<QuestionTurn, Failure> {
        let name = user.username.clone().unwrap_or_default();
        let place = self.places.try_acquire(name);
        let place = place.ok_or_else(Failure::too_many_requests)?;
        Ok(QuestionTurn {
            computing: self.computing.clone().lock_owned().await,
            places: (turn, place),
        })
    }
}

impl QuestionTurn {
    /// Answers the question by this work on a blocking thread. Holds the turn until the work is done,
    /// even if the caller is gone by then.
    pub(super) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let runtime = Handle::current();
        let answer = threads::spawn_blocking(move || {
            let Self { computing, places } = self;
            let began = Instant::now();
            let answer = work();
            runtime.spawn(rest(computing, began.elapsed()));
            drop(places);
            answer
        });
        answer.await.map_err(|_| Failure::unavailable())
    }
}

/// Holds the turn for as long as the answer took.
async fn rest(turn: OwnedMutexGuard<()>, took: Duration) {
    tokio::time::sleep(took).await;
    drop(turn);
}

/// Reads the question in the body of a request.
pub(super) async fn read_question<Q: Question>(body: Body) -> Result<Q, Failure> {
    let read = tokio::time::timeout(READ_TIMEOUT, read_body(body, MAX_BODY)).await;
    parse(&read.map_err(|_| late_body(READ_TIMEOUT))??)
}

/// Parses a question. An error names the field.
fn parse<Q: Question>(body: &[u8]) -> Result<Q, Failure> {
    let own = Q::kind(&());
    let malformed =
        |error: serde_json::Error| Failure::bad_request(format!("the body is no JSON: {error}"));
    let value: Value = serde_json::from_slice(body).map_err(malformed)?;
    let mut fields = value
        .as_object()
        .into_iter()
        .flat_map(|object| object.keys());
    if let Some(unknown) = fields.find(|field| !FIELDS.contains(&field.as_str())) {
        let fields = FIELDS.join(", ");
        let message = format!("{unknown}: unknown field: a {own} has {fields}");
        return Err(Failure::bad_request(message));
    }
    let question: Q = serde_path_to_error::deserialize(value).map_err(|error| {
        let (path, cause) = (error.path().to_string(), error.into_inner());
        let plural = Q::plural(&());
        Failure::bad_request(format!(
            "{path}: {cause}: `kubectl explain {plural}` describes the fields"
        ))
    })?;
    let types = question.types();
    let (version, kind) = (&types.api_version, &types.kind);
    if *version != visibility::api_version() || *kind != own {
        return Err(Failure::bad_request(format!(
            "the body is a {kind} of {version}: a {own} of {} is needed",
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
            parse::<Forecast>(format!("{{{base}{rest}}}").as_bytes())
                .map(|_| ())
                .unwrap_err()
        };
        assert!(parse::<Forecast>(format!("{{{base}}}").as_bytes()).is_ok());
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
            parse::<Forecast>(other.as_bytes()).unwrap_err().to_string(),
            "the body is a Pod of v1: a Forecast of visibility.trellis.dev/v1alpha1 is needed"
        );
        for no_json in [&b""[..], b"{", br#"{"kind":"Forecast"} more"#] {
            let failure = parse::<Forecast>(no_json).unwrap_err();
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
        let failure = read_question::<Forecast>(Body::from_stream(never))
            .await
            .unwrap_err();
        assert_eq!(failure.code(), 408);
    }
}
