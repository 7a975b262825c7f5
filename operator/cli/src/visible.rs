//! What the engine alone knows, read through the API server ([`trellis_api::visibility`]).

use std::fmt::Debug;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::cluster::Unread;

/// What came of asking.
#[derive(Debug)]
pub enum Visible<T> {
    /// It is so.
    Told(T),
    /// There is no such object.
    Nothing,
    /// The cluster does not serve it now, and why.
    Unserved(&'static str),
    /// The right is missing, and in whose words.
    Denied(String),
}

impl<T> Visible<T> {
    /// What was told, if anything was.
    #[must_use]
    pub fn told(self) -> Option<T> {
        match self {
            Self::Told(told) => Some(told),
            _ => None,
        }
    }
}

const NOT_INSTALLED: &str = "the cluster does not serve visibility.trellis.dev: install the chart with visibility.enabled, which is its default";
const NO_LEADER: &str =
    "no scheduler answers now: `kubectl get apiservice v1alpha1.visibility.trellis.dev` says why";

const BUSY: &str =
    "the scheduler answers too many others now, and was asked several times: ask again in a while";

const SILENT: &str = "the scheduler has not answered in time: `kubectl get pods,leases -n trellis-system` shows whether it runs; --request-timeout=60s waits longer";

/// How often one that is busy is asked once more.
const AGAIN: usize = 2;
/// Before that, as it says itself.
const PAUSE: Duration = Duration::from_secs(1);

/// All that there is of a kind, as of one moment. `patience` bounds the answer; none is no bound.
///
/// # Errors
/// If the cluster cannot be reached.
pub async fn all<K>(api: &Api<K>, patience: Option<Duration>) -> Result<Visible<Vec<K>>, Unread>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    // Not page by page: pages of different moments tell no queue.
    let whole = ListParams::default();
    match in_time(patience, again(async || api.list(&whole).await)).await {
        None => Ok(Visible::Unserved(SILENT)),
        Some(Ok(list)) => Ok(Visible::Told(list.items)),
        Some(Err(error)) => sorted::<K, _>("list", error, true),
    }
}

/// The object of that name. `patience` bounds the answer; none is no bound.
///
/// # Errors
/// If the cluster cannot be reached.
pub async fn one<K>(
    api: &Api<K>,
    name: &str,
    patience: Option<Duration>,
) -> Result<Visible<K>, Unread>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match in_time(patience, again(async || api.get(name).await)).await {
        None => Ok(Visible::Unserved(SILENT)),
        Some(Ok(object)) => Ok(Visible::Told(object)),
        Some(Err(error)) => sorted::<K, _>("get", error, false),
    }
}

/// The answer. None: it did not come within `patience`. The API server itself waits for an
/// aggregated API that is silent for a minute.
async fn in_time<F: Future>(patience: Option<Duration>, answer: F) -> Option<F::Output> {
    match patience {
        Some(patience) => timeout(patience, answer).await.ok(),
        None => Some(answer.await),
    }
}

/// Asks anew, a few times, who is only busy.
async fn again<T>(ask: impl AsyncFn() -> kube::Result<T>) -> kube::Result<T> {
    for _ in 0..AGAIN {
        match ask().await {
            Err(kube::Error::Api(status)) if status.code == 429 => {
                tokio::time::sleep(PAUSE).await;
            }
            answered => return answered,
        }
    }
    ask().await
}

fn sorted<K, T>(verb: &'static str, error: kube::Error, is_list: bool) -> Result<Visible<T>, Unread>
where
    K: Resource<DynamicType = ()>,
{
    let kube::Error::Api(status) = &error else {
        return Err(Unread::new::<K>(verb, error));
    };
    match status.code {
        401 | 403 => Ok(Visible::Denied(status.message.clone())),
        // A list of a kind that is known is never not found.
        404 if is_list || status.reason != "NotFound" => Ok(Visible::Unserved(NOT_INSTALLED)),
        404 => Ok(Visible::Nothing),
        429 => Ok(Visible::Unserved(BUSY)),
        500..=599 => Ok(Visible::Unserved(NO_LEADER)),
        _ => Err(Unread::new::<K>(verb, error)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kube::core::Status;
    use trellis_api::visibility::JobState;

    use super::*;

    fn refused(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("why", "").with_code(code)))
    }

    #[tokio::test]
    async fn who_is_busy_is_asked_again_and_who_is_not_there_is_not() {
        for (codes, asked, answered) in [
            (&[429][..], 2, true),
            (&[429, 429], 3, true),
            (&[429, 429, 429], 3, false),
            (&[503], 1, false),
        ] {
            let count = Cell::new(0);
            let answer = again(async || {
                let at = count.replace(count.get() + 1);
                codes.get(at).map_or(Ok(()), |code| Err(refused(*code)))
            });
            assert_eq!(answer.await.is_ok(), answered, "{codes:?}");
            assert_eq!(count.get(), asked, "{codes:?}");
        }
        let words = |code| sorted::<JobState, ()>("list", refused(code), true);
        assert!(matches!(words(429), Ok(Visible::Unserved(BUSY))));
        assert!(matches!(words(503), Ok(Visible::Unserved(NO_LEADER))));
    }

    /// An API server that takes connections and never answers.
    async fn silent() -> kube::Client {
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
    async fn silent_scheduler_is_given_up_after_the_patience() {
        let api = Api::<JobState>::all(silent().await);
        let patience = Some(Duration::from_millis(50));
        let seen = timeout(Duration::from_secs(5), all(&api, patience)).await;
        assert!(
            matches!(seen, Ok(Ok(Visible::Unserved(SILENT)))),
            "{seen:?}"
        );
    }
}
