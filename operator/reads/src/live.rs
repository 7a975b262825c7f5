//! Objects of the visibility API, kept current by a watch.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, Stream, StreamExt as _};
use kube::api::WatchParams;
use kube::core::{NamespaceResourceScope, WatchEvent};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::queue::JobScope;
use crate::visibility::{VisibilityAnswer, list_objects};
use crate::{ApiFailure, ReadError, Reader};

/// Longest time without an event. The scheduler sends a bookmark every five seconds.
const MAX_SILENCE: Duration = Duration::from_secs(15);

/// Time in which changes are taken together.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Shortest time between two lists. It is their interval if the user may not watch, or the operator is
/// too old for it.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Duration of a watch, after which the next one goes on. The API server checks a credential only when
/// a watch begins, and a user whom it no longer knows must soon see no data.
const WATCH_SECONDS: u32 = 10;

/// Namespace and name of an object.
type ObjectName = (String, String);

/// Objects by namespace and name. An object without news is the same allocation as before.
pub type LiveObjects<K> = BTreeMap<ObjectName, Arc<K>>;

type Events<K> = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<K>>> + Send>>;

/// All objects of a kind, kept current by a watch.
pub struct LiveList<K> {
    api: Api<K>,
    patience: Option<Duration>,
    objects: LiveObjects<K>,
    has_listed: bool,
    /// Version of the objects. None: they must be listed.
    version: Option<String>,
    events: Option<Events<K>>,
    /// False: the objects are listed at an interval.
    can_watch: bool,
    poll_interval: Duration,
    next_list: Instant,
    /// Time of the last list or event.
    last_sign: Instant,
}

impl<K> Debug for LiveList<K> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LiveList")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl<K> LiveList<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    /// Follows these objects. `patience` is the timeout of a list; None: no timeout.
    #[must_use]
    pub fn new(api: Api<K>, patience: Option<Duration>) -> Self {
        Self {
            api,
            patience,
            objects: BTreeMap::new(),
            has_listed: false,
            version: None,
            events: None,
            can_watch: true,
            poll_interval: POLL_INTERVAL,
            next_list: Instant::now(),
            last_sign: Instant::now(),
        }
    }

    /// Returns true if the objects have been listed.
    #[must_use]
    pub const fn has_listed(&self) -> bool {
        self.has_listed
    }

    /// The objects of the last look.
    #[must_use]
    pub const fn objects(&self) -> &LiveObjects<K> {
        &self.objects
    }

    /// The first call lists the objects. Later calls return after a change or a bookmark, or after a
    /// new list. A caller may drop the future.
    ///
    /// # Errors
    /// If the cluster cannot be reached. The next call lists the objects again.
    pub async fn renew(&mut self) -> Result<VisibilityAnswer<()>, ApiFailure> {
        if let Some(version) = self.version.clone() {
            if self.can_watch && self.take_events(version).await {
                return Ok(VisibilityAnswer::Available(()));
            }
            self.version = None;
            self.events = None;
        }
        // A watch or a list that fails again and again must not become a list after a list.
        sleep_until(self.next_list).await;
        self.list().await
    }

    /// Returns true if the next call of [`Self::renew`] lists the objects. A caller that drops its
    /// future may drop the list again and again.
    #[must_use]
    pub fn lists_now(&self) -> bool {
        let is_due = !self.can_watch && self.next_list <= Instant::now();
        self.version.is_none() || is_due
    }

    async fn list(&mut self) -> Result<VisibilityAnswer<()>, ApiFailure> {
        self.next_list = after(self.poll_interval);
        let listed = list_objects(&self.api, self.patience).await?;
        self.last_sign = Instant::now();
        Ok(listed.map(|list| {
            self.objects = list.items.into_iter().map(to_entry).collect();
            self.has_listed = true;
            self.version = list.metadata.resource_version;
        }))
    }

    /// Takes the next events. Returns false if the objects must be listed again.
    async fn take_events(&mut self, version: String) -> bool {
        let Some(first) = self.next_event(version).await else {
            return false;
        };
        if !self.apply(first) {
            return false;
        }
        sleep(DEBOUNCE).await;
        while let Some(events) = &mut self.events {
            match events.next().now_or_never() {
                None => break,
                Some(Some(Ok(event))) => {
                    if !self.apply(event) {
                        return false;
                    }
                }
                // The next call watches again.
                Some(_) => self.events = None,
            }
        }
        true
    }

    /// Returns the next event, of a new watch if there is none. None: the watch cannot go on.
    async fn next_event(&mut self, version: String) -> Option<WatchEvent<K>> {
        // A watch that has ended goes on once.
        for _ in 0..2 {
            if self.events.is_none() {
                let params = WatchParams::default().timeout(WATCH_SECONDS);
                match self.api.watch(&params, &version).await {
                    Ok(events) => {
                        self.events = Some(Box::pin(events));
                        self.last_sign = Instant::now();
                    }
                    Err(kube::Error::Api(status)) if matches!(status.code, 403 | 405) => {
                        self.can_watch = false;
                        return None;
                    }
                    Err(_) => return None,
                }
            }
            let silent = self.last_sign.checked_add(MAX_SILENCE)?;
            let next = timeout_at(silent, self.events.as_mut()?.next()).await;
            match next {
                Ok(Some(Ok(event))) => {
                    self.last_sign = Instant::now();
                    return Some(event);
                }
                Ok(None) => self.events = None,
                Ok(Some(Err(_))) | Err(_) => return None,
            }
        }
        None
    }

    /// Applies an event. Returns false if the watch cannot go on.
    fn apply(&mut self, event: WatchEvent<K>) -> bool {
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let version = object.resource_version();
                self.objects.extend([to_entry(object)]);
                version
            }
            WatchEvent::Deleted(object) => {
                self.objects.remove(&name_of(&object));
                object.resource_version()
            }
            WatchEvent::Bookmark(bookmark) => Some(bookmark.metadata.resource_version),
            WatchEvent::Error(_) => return false,
        };
        self.version = version.or_else(|| self.version.take());
        true
    }
}

/// A list of the namespaces that the user may see.
pub(crate) struct ScopedList<K> {
    pub(crate) list: LiveList<K>,
    /// The answer to the first look.
    pub(crate) answer: VisibilityAnswer<()>,
    /// True: the objects are those of all namespaces.
    pub(crate) is_complete: bool,
}

/// Lists the objects of these namespaces. `right` is the right that the user needs.
///
/// # Errors
/// If the cluster cannot be reached.
pub(crate) async fn list_in_scope<K>(
    reader: &Reader,
    scope: JobScope,
    right: &str,
) -> Result<ScopedList<K>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
{
    let look = async |api: Api<K>, is_complete| {
        let mut list = LiveList::new(api, reader.scheduler_timeout);
        let answer = list.renew().await;
        answer
            .map_err(|error| reader.read_error(error, right))
            .map(|answer| ScopedList {
                list,
                answer,
                is_complete,
            })
    };
    let client = || reader.client.clone();
    if scope != JobScope::Own {
        let all = look(Api::all(client()), true).await?;
        let is_denied = matches!(all.answer, VisibilityAnswer::Denied(_));
        if !is_denied || scope == JobScope::All {
            return Ok(all);
        }
    }
    look(Api::namespaced(client(), &reader.namespace), false).await
}

fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now)
}

/// An object under its name, without its version: a new version alone is no news.
fn to_entry<K: Resource<DynamicType = ()>>(mut object: K) -> (ObjectName, Arc<K>) {
    object.meta_mut().resource_version = None;
    (name_of(&object), Arc::new(object))
}

fn name_of(object: &impl Resource<DynamicType = ()>) -> ObjectName {
    let meta = object.meta();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&meta.namespace), text(&meta.name))
}

#[cfg(test)]
mod tests;
