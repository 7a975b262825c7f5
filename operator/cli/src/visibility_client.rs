//! What the engine alone knows, read through the API server ([`trellis_api::visibility`]).

use std::fmt::Debug;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::cluster::ApiFailure;

/// What came of asking.
#[derive(Debug)]
pub enum VisibilityAnswer<T> {
    /// It is so.
    Available(T),
    /// There is no such object.
    NotFound,
    /// The cluster does not serve it now, and why.
    Unavailable(&'static str),
    /// The right is missing, and in whose words.
    Denied(String),
}

impl<T> VisibilityAnswer<T> {
    /// What was told, if anything was.
    #[must_use]
    pub fn into_option(self) -> Option<T> {
        match self {
            Self::Available(told) => Some(told),
            _ => None,
        }
    }
}

const NOT_INSTALLED: &str = "the cluster does not serve visibility.trellis.dev: install the chart with visibility.enabled, which is its default";
const NO_LEADER: &str =
    "no scheduler answers now: `kubectl get apiservice v1alpha1.visibility.trellis.dev` says why";

const BUSY: &str =
    "the scheduler answers too many others now, and was asked several times: ask again in a while";

const NO_ANSWER: &str = "the scheduler has not answered in time: `kubectl get pods,leases -n trellis-system` shows whether it runs; --request-timeout=60s waits longer";

/// How often one that is busy is asked once more.
const RETRIES: usize = 2;
/// Before that, as it says itself.
const PAUSE: Duration = Duration::from_secs(1);

/// All that there is of a kind, as of one moment. `patience` bounds the answer; none is no bound.
///
/// # Errors
/// If the cluster cannot be reached.
pub async fn list_objects<K>(
    api: &Api<K>,
    patience: Option<Duration>,
) -> Result<VisibilityAnswer<Vec<K>>, ApiFailure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    // Not page by page: pages of different moments tell no queue.
    let whole = ListParams::default();
    match with_timeout(patience, retry_while_busy(async || api.list(&whole).await)).await {
        None => Ok(VisibilityAnswer::Unavailable(NO_ANSWER)),
        Some(Ok(list)) => Ok(VisibilityAnswer::Available(list.items)),
        Some(Err(error)) => classify_error::<K, _>("list", error, true),
    }
}

/// The object of that name. `patience` bounds the answer; none is no bound.
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
    match with_timeout(patience, retry_while_busy(async || api.get(name).await)).await {
        None => Ok(VisibilityAnswer::Unavailable(NO_ANSWER)),
        Some(Ok(object)) => Ok(VisibilityAnswer::Available(object)),
        Some(Err(error)) => classify_error::<K, _>("get", error, false),
    }
}

/// The answer. None: it did not come within `patience`. The API server itself waits for an
/// aggregated API that is silent for a minute.
async fn with_timeout<F: Future>(patience: Option<Duration>, answer: F) -> Option<F::Output> {
    match patience {
        Some(patience) => timeout(patience, answer).await.ok(),
        None => Some(answer.await),
    }
}

/// Asks anew, a few times, who is only busy.
async fn retry_while_busy<T>(ask: impl AsyncFn() -> kube::Result<T>) -> kube::Result<T> {
    for _ in 0..RETRIES {
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
        401 | 403 => Ok(VisibilityAnswer::Denied(status.message.clone())),
        // A list of a kind that is known is never not found.
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
        for (codes, asked, answered) in [
            (&[429][..], 2, true),
            (&[429, 429], 3, true),
            (&[429, 429, 429], 3, false),
            (&[503], 1, false),
        ] {
            let count = Cell::new(0);
            let answer = retry_while_busy(async || {
                let at = count.replace(count.get() + 1);
                codes.get(at).map_or(Ok(()), |code| Err(api_error(*code)))
            });
            assert_eq!(answer.await.is_ok(), answered, "{codes:?}");
            assert_eq!(count.get(), asked, "{codes:?}");
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

    /// An API server that takes connections and never answers.
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
        let seen = timeout(Duration::from_secs(5), list_objects(&api, patience)).await;
        assert!(
            matches!(seen, Ok(Ok(VisibilityAnswer::Unavailable(NO_ANSWER)))),
            "{seen:?}"
        );
    }
}
