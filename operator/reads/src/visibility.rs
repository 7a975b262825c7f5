//! Reads the engine's own data through the API server.
//! The API is [`trellis_api::visibility`].

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{ListParams, ObjectList, PostParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::text::sanitize;
use crate::{ApiFailure, ErrorHints, ReadError, Reader};

/// The answer to a read.
#[derive(Debug)]
pub enum VisibilityAnswer<T> {
    /// The object.
    Available(T),
    /// The object does not exist.
    NotFound,
    /// The cluster does not serve the API now, with the reason.
    Unavailable(&'static str),
    /// The user lacks the right, with the message of the API server.
    Denied(String),
    /// The cluster does not know the user.
    Unauthorized(String),
}

impl<T> VisibilityAnswer<T> {
    /// Converts the object, if it is available.
    #[must_use]
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> VisibilityAnswer<U> {
        match self {
            Self::Available(told) => VisibilityAnswer::Available(convert(told)),
            Self::NotFound => VisibilityAnswer::NotFound,
            Self::Unavailable(reason) => VisibilityAnswer::Unavailable(reason),
            Self::Denied(message) => VisibilityAnswer::Denied(message),
            Self::Unauthorized(message) => VisibilityAnswer::Unauthorized(message),
        }
    }

    /// Returns the object, if it exists. `right` tells a user who lacks the right how to get it.
    ///
    /// # Errors
    /// If the object could not be read.
    pub fn into_result(self, right: &str) -> Result<Option<T>, ReadError> {
        match self {
            Self::Available(told) => Ok(Some(told)),
            Self::NotFound => Ok(None),
            Self::Unavailable(reason) => Err(ReadError::unavailable(reason.to_owned())),
            Self::Denied(message) => Err(ReadError::denied(format!("{message}: {right}"))),
            Self::Unauthorized(message) => Err(ReadError::unauthorized(message)),
        }
    }

    /// Returns the object, if it is available.
    #[must_use]
    pub fn into_option(self) -> Option<T> {
        match self {
            Self::Available(told) => Some(told),
            _ => None,
        }
    }
}

const NOT_INSTALLED: &str = "the cluster does not serve visibility.trellis.dev: install the chart with visibility.enabled, which is its default";
const NO_LEADER: &str = "no scheduler answers now: `kubectl get apiservice v1alpha1.visibility.trellis.dev` shows the cause";

const BUSY: &str =
    "the scheduler is busy with other requests, also after several attempts: try again later";

const NO_ANSWER: &str = "the scheduler has not answered in time: `kubectl get pods,leases -n trellis-system` shows whether it runs; --request-timeout=60s waits longer";

/// Number of retries while the scheduler is busy.
const RETRIES: usize = 2;
/// Number of retries of a question, whose turn takes seconds. The patience of the caller ends before.
const QUESTION_RETRIES: usize = 60;
/// Pause before a retry, as the scheduler itself advises.
const PAUSE: Duration = Duration::from_secs(1);

/// Lists all objects of a kind at one moment.
/// `patience` is the timeout of the answer; None: no timeout.
///
/// # Errors
/// If the cluster cannot be reached.
pub async fn list_objects<K>(
    api: &Api<K>,
    patience: Option<Duration>,
) -> Result<VisibilityAnswer<ObjectList<K>>, ApiFailure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    // The list is not paged: pages from different moments would not show a consistent queue.
    let unpaged = ListParams::default();
    match with_timeout(patience, retry_while_busy(RETRIES, || api.list(&unpaged))).await {
        None => Ok(VisibilityAnswer::Unavailable(NO_ANSWER)),
        Some(Ok(list)) => Ok(VisibilityAnswer::Available(list)),
        Some(Err(error)) => classify_error::<K, _>("list", error, true),
    }
}

/// Gets the object of that name.
/// `patience` is the timeout of the answer; None: no timeout.
///
/// # Errors
/// If the cluster cannot be reached.
pub async fn get_object<K>(
    api: &Api<K>,
    name: &str,
    patience: Option<Duration>,
) -> Result<VisibilityAnswer<K>, ApiFailure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match with_timeout(patience, retry_while_busy(RETRIES, || api.get(name))).await {
        None => Ok(VisibilityAnswer::Unavailable(NO_ANSWER)),
        Some(Ok(object)) => Ok(VisibilityAnswer::Available(object)),
        Some(Err(error)) => classify_error::<K, _>("get", error, false),
    }
}

/// Creates an object that asks a question, and returns it with the answer.
/// `patience` is the timeout of the answer; None: no timeout.
///
/// # Errors
/// If the cluster cannot be reached, or refuses the question.
async fn create_object<K>(
    api: &Api<K>,
    question: &K,
    patience: Option<Duration>,
) -> Result<VisibilityAnswer<K>, ApiFailure>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    let params = PostParams::default();
    match with_timeout(
        patience,
        retry_while_busy(QUESTION_RETRIES, || api.create(&params, question)),
    )
    .await
    {
        None => Ok(VisibilityAnswer::Unavailable(NO_ANSWER)),
        Some(Ok(object)) => Ok(VisibilityAnswer::Available(object)),
        Some(Err(error)) => classify_error::<K, _>("create", error, false),
    }
}

/// How long a question may take, as a multiple of another answer: the scheduler looks ahead or tries
/// shapes for some seconds, and may have to answer other questions first.
const QUESTION_PATIENCE: u32 = 4;

/// Asks a question by creating an object, and returns the object with the answer. `hints` help a user
/// who lacks the right. None: the operator is older than this program.
///
/// # Errors
/// If the operator does not answer, or refuses the question.
pub(crate) async fn ask_question<K>(
    reader: &Reader,
    api: &Api<K>,
    question: &K,
    hints: &ErrorHints,
) -> Result<Option<K>, ReadError>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    let patience = reader
        .scheduler_timeout
        .map(|usual| usual.saturating_mul(QUESTION_PATIENCE));
    let asked = create_object(api, question, patience).await;
    let answer = asked.map_err(|error| error.into_read_error(hints))?;
    answer.into_result(&hints.rights)
}

/// Returns the answer, or None if it did not arrive within `patience`.
/// The API server itself waits for a minute if an aggregated API does not answer.
async fn with_timeout<F: Future>(patience: Option<Duration>, answer: F) -> Option<F::Output> {
    match patience {
        Some(patience) => timeout(patience, answer).await.ok(),
        None => Some(answer.await),
    }
}

/// Retries a few times while the scheduler is busy.
async fn retry_while_busy<T, F>(retries: usize, ask: impl Fn() -> F) -> kube::Result<T>
where
    F: Future<Output = kube::Result<T>>,
{
    for _ in 0..retries {
        match ask().await {
            Err(kube::Error::Api(status)) if status.code == 429 => {
                tokio::time::sleep(PAUSE).await;
            }
            answered => return answered,
        }
    }
    ask().await
}

fn classify_error<K, T>(
    verb: &'static str,
    error: kube::Error,
    is_list: bool,
) -> Result<VisibilityAnswer<T>, ApiFailure>
where
    K: Resource<DynamicType = ()>,
{
    let kube::Error::Api(status) = &error else {
        return Err(ApiFailure::new::<K>(verb, error));
    };
    match status.code {
        401 => Ok(VisibilityAnswer::Unauthorized(format!(
            "the cluster refuses the credential ({}): sign in anew, or check the user of the kubeconfig",
            sanitize(&status.message)
        ))),
        403 => Ok(VisibilityAnswer::Denied(status.message.clone())),
        // A list of a known kind never returns 404.
        404 if is_list || status.reason != "NotFound" => {
            Ok(VisibilityAnswer::Unavailable(NOT_INSTALLED))
        }
        404 => Ok(VisibilityAnswer::NotFound),
        429 => Ok(VisibilityAnswer::Unavailable(BUSY)),
        500..=599 => Ok(VisibilityAnswer::Unavailable(NO_LEADER)),
        _ => Err(ApiFailure::new::<K>(verb, error)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kube::core::Status;
    use trellis_api::visibility::JobState;

    use super::*;

    fn api_error(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("why", "").with_code(code)))
    }

    #[tokio::test]
    async fn busy_server_is_retried_and_a_missing_object_is_not() {
        for (codes, requests, answered) in [
            (&[429][..], 2, true),
            (&[429, 429], 3, true),
            (&[429, 429, 429], 3, false),
            (&[503], 1, false),
        ] {
            let count = Cell::new(0);
            let answer = retry_while_busy(RETRIES, || {
                let at = count.replace(count.get() + 1);
                std::future::ready(codes.get(at).map_or(Ok(()), |code| Err(api_error(*code))))
            });
            assert_eq!(answer.await.is_ok(), answered, "{codes:?}");
            assert_eq!(count.get(), requests, "{codes:?}");
        }
        let words = |code| classify_error::<JobState, ()>("list", api_error(code), true);
        assert!(matches!(
            words(429),
            Ok(VisibilityAnswer::Unavailable(BUSY))
        ));
        assert!(matches!(
            words(503),
            Ok(VisibilityAnswer::Unavailable(NO_LEADER))
        ));
    }

    /// An API server that accepts connections and never answers.
    async fn silent_server() -> kube::Client {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                open.push(connection);
            }
        });
        let config = kube::Config::new(format!("http://{address}").parse().unwrap());
        kube::Client::try_from(config).unwrap()
    }

    #[tokio::test]
    async fn silent_scheduler_times_out() {
        let api = Api::<JobState>::all(silent_server().await);
        let patience = Some(Duration::from_millis(50));
        let answer = timeout(Duration::from_secs(5), list_objects(&api, patience)).await;
        assert!(
            matches!(answer, Ok(Ok(VisibilityAnswer::Unavailable(NO_ANSWER)))),
            "{answer:?}"
        );
    }
}
