//! An object as it changes.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::ApiFailure;

/// What came of following an object.
#[derive(Debug)]
pub enum FollowResult<T> {
    /// What was waited for.
    Reached(T),
    /// The time is over.
    TimedOut,
}

/// Shows an object of that name, or that there is none, at first and with every change, until
/// `look` has seen enough or the time is over. What breaks on the way is tried again.
///
/// # Errors
/// If the API server will never show it: the right is missing, or the kind is not known.
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
            // It never ends by itself.
            None => ControlFlow::Continue(()),
        };
        if let ControlFlow::Break(seen) = flow {
            return Ok(seen);
        }
    }
}

/// What of a watch no new try would change: the right is missing, or the kind is not known.
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
