//! Follows the changes of one object.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use trellis_reads::ApiFailure;

/// Result of following an object.
#[derive(Debug)]
pub enum FollowResult<T> {
    /// The condition was reached.
    Reached(T),
    /// The timeout expired.
    TimedOut,
}

/// Calls `look` with the object of that name, at first and after every change.
/// `look` gets None if the object does not exist. This ends when `look` breaks or the timeout
/// expires. It retries after transient errors.
///
/// # Errors
/// If a retry cannot help: the user lacks the right, or the cluster does not know the kind.
pub async fn follow<K, T>(
    api: &Api<K>,
    name: &str,
    within: Option<Duration>,
    look: impl FnMut(Option<&K>) -> ControlFlow<T>,
) -> Result<FollowResult<T>, ApiFailure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let following = follow_without_timeout(api, name, look);
    match within {
        None => following.await.map(FollowResult::Reached),
        Some(within) => match timeout(within, following).await {
            Ok(seen) => seen.map(FollowResult::Reached),
            Err(_) => Ok(FollowResult::TimedOut),
        },
    }
}

async fn follow_without_timeout<K, T>(
    api: &Api<K>,
    name: &str,
    mut look: impl FnMut(Option<&K>) -> ControlFlow<T>,
) -> Result<T, ApiFailure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let events = watcher(api.clone(), config).default_backoff();
    pin_mut!(events);
    let mut listed = None;
    loop {
        let flow = match events.next().await {
            Some(Ok(Event::Init)) => {
                listed = None;
                ControlFlow::Continue(())
            }
            Some(Ok(Event::InitApply(object))) => {
                listed = Some(object);
                ControlFlow::Continue(())
            }
            Some(Ok(Event::InitDone)) => look(listed.as_ref()).map_continue(drop),
            Some(Ok(Event::Apply(object))) => look(Some(&object)).map_continue(drop),
            Some(Ok(Event::Delete(_))) => look(None).map_continue(drop),
            Some(Err(error)) => match permanent_error(error) {
                Some(error) => return Err(ApiFailure::new::<K>("watch", error)),
                None => ControlFlow::Continue(()),
            },
            // The stream never ends by itself.
            None => ControlFlow::Continue(()),
        };
        if let ControlFlow::Break(result) = flow {
            return Ok(result);
        }
    }
}

/// Returns the error if a retry cannot help.
/// Then the user lacks the right, or the cluster does not know the kind.
#[must_use]
pub fn permanent_error(error: watcher::Error) -> Option<kube::Error> {
    let error = match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => error,
        _ => return None,
    };
    match &error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404) => Some(error),
        _ => None,
    }
}
