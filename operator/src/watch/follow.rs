//! One kind, followed for ever.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::key::Key;

/// Longest watch call: load balancers cut at 240 s.
const WATCH_SECONDS: u32 = 200;
/// Longest wait for the next page of a list.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// Back-off of a broken watch.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// A watch that has been silent and unbroken for this long is a healthy one.
const CALM: Duration = Duration::from_secs(60);

/// Where the events of one watch go.
pub trait Sink<K>: Send + Sync + 'static {
    /// The object is there, new or changed.
    fn apply(&self, key: Key, object: K);
    /// The object of that uid is gone.
    fn delete(&self, key: &Key, uid: &str);
    /// Everything that there was at the start has been applied. Called once a list.
    fn synced(&self);
    /// The API server does not know the kind. It is asked again.
    fn unknown(&self) {}
}

/// Follows one kind for ever.
pub async fn follow<K, S>(api: Api<K>, config: watcher::Config, sink: Arc<S>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K>,
{
    let config = config.timeout(WATCH_SECONDS);
    follow_streams(
        || watcher::watcher(api.clone(), config.clone()).boxed(),
        sink,
    )
    .await;
}

/// Follows a stream of events, and starts another where it does not answer.
async fn follow_streams<K, S>(
    start: impl Fn() -> BoxStream<'static, watcher::Result<Event<K>>>,
    sink: Arc<S>,
) where
    K: Resource<DynamicType = ()>,
    S: Sink<K>,
{
    let kind = K::kind(&()).into_owned();
    let mut known = Known::default();
    let mut backoff = Backoff::default();
    let mut synced = false;
    let mut known_unknown = false;
    let mut stream = start();
    loop {
        // Until the first list is there, and while a later one is made, something
        // must come; afterwards silence is no fault.
        let listing = known.is_listing() || !synced;
        let bound = if listing { LIST_SILENCE } else { Duration::MAX };
        let Ok(event) = tokio::time::timeout(bound, stream.next()).await else {
            warn!(%kind, "a list is not answered; it starts over");
            known.abort();
            stream = start();
            continue;
        };
        match event {
            None => return,
            Some(Err(error)) => {
                let unknown = is_unknown(&error);
                if unknown {
                    known.abort();
                    for (key, uid) in known.uids.drain() {
                        sink.delete(&key, &uid);
                    }
                    sink.unknown();
                }
                // Of a kind that a cluster need not have this is said once.
                if !unknown {
                    warn!(%kind, %error, "a watch is broken; it starts over");
                } else if !known_unknown {
                    warn!(%kind, "the API server does not know this kind; it is asked again");
                }
                known_unknown = unknown;
                tokio::time::sleep(backoff.broken(Instant::now())).await;
            }
            // It precedes every list, those that fail too.
            Some(Ok(Event::Init)) => known.begin(),
            Some(Ok(Event::InitApply(object))) => {
                let key = known.list(&object);
                sink.apply(key, object);
            }
            Some(Ok(Event::InitDone)) => {
                backoff.healthy();
                for (key, uid) in known.end() {
                    sink.delete(&key, &uid);
                }
                info!(%kind, objects = known.uids.len(), "listed");
                synced = true;
                sink.synced();
            }
            Some(Ok(Event::Apply(object))) => {
                backoff.healthy();
                let key = known.add(&object);
                sink.apply(key, object);
            }
            Some(Ok(Event::Delete(object))) => {
                backoff.healthy();
                let key = Key::of(object.meta());
                known.uids.remove(&key);
                sink.delete(&key, uid(&object));
            }
        }
    }
}

/// True if there is no such kind. A single object's absence is no error of a watch.
fn is_unknown(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    status.code == 404
}

fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// What has been applied. A re-list emits no deletions, so what it leaves out
/// is found here; of a list that breaks off too, what it showed is known.
#[derive(Debug, Default)]
struct Known {
    uids: HashMap<Key, Box<str>>,
    /// What the list that is being made has shown so far.
    listed: Option<HashSet<Key>>,
}

impl Known {
    fn is_listing(&self) -> bool {
        self.listed.is_some()
    }

    fn begin(&mut self) {
        self.listed = Some(HashSet::new());
    }

    fn abort(&mut self) {
        self.listed = None;
    }

    fn add<K: Resource>(&mut self, object: &K) -> Key {
        let key = Key::of(object.meta());
        self.uids.insert(key.clone(), uid(object).into());
        key
    }

    fn list<K: Resource>(&mut self, object: &K) -> Key {
        let key = self.add(object);
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
        key
    }

    /// The list is complete: gives what it does not show.
    fn end(&mut self) -> Vec<(Key, Box<str>)> {
        let Some(listed) = self.listed.take() else {
            return Vec::new();
        };
        self.uids
            .extract_if(|key, _| !listed.contains(key))
            .collect()
    }
}

/// Pauses of a broken watch: longer each time, until it is healthy again.
#[derive(Debug, Default)]
struct Backoff {
    pause: Option<Duration>,
    broke: Option<Instant>,
}

impl Backoff {
    fn broken(&mut self, now: Instant) -> Duration {
        let calm = |at: Instant| now.saturating_duration_since(at) > CALM;
        if self.broke.is_some_and(calm) {
            self.healthy();
        }
        self.broke = Some(now);
        let pause = self.pause.unwrap_or(FIRST_PAUSE);
        self.pause = Some(pause.saturating_mul(2).min(LONGEST_PAUSE));
        pause
    }

    fn healthy(&mut self) {
        self.pause = None;
    }
}

#[cfg(test)]
mod tests;
