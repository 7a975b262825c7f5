//! One kind, followed for ever.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::WatchEvent;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::backoff::{Backoff, FIRST_PAUSE};
use super::source::{Server, Source};
use crate::key::Key;

/// Longest watch call: load balancers cut at 240 s.
const WATCH_SECONDS: u32 = 200;
/// Longest silence of a watch: its bookmarks come each minute, and its end after
/// [`WATCH_SECONDS`].
const WATCH_SILENCE: Duration = Duration::from_secs(210);
/// Longest wait for a page of a list, and for a watch to begin.
const ANSWER: Duration = Duration::from_secs(30);
/// Objects of one page.
const PAGE: u32 = 500;

/// Where the events of one watch go.
pub trait Sink<K>: Send + Sync + 'static {
    /// The object is there, new or changed.
    fn apply(&self, key: Key, object: K);
    /// The object of that uid is gone.
    fn delete(&self, key: &Key, uid: &str);
    /// A list of that version is complete, and these are all objects that there
    /// were. Gives the uids of those that were not and are known all the same,
    /// from answers to requests of our own: no event will tell of their end.
    fn ghosts(&self, _listed: &HashSet<Key>, _version: u64) -> Vec<(Key, String)> {
        Vec::new()
    }
    /// Everything that there was at the start has been applied. Called once a list.
    fn synced(&self);
    /// The API server does not know the kind. It is asked again.
    fn unknown(&self) {}
}

/// Follows one kind for as long as its history goes on. Returns if the API
/// server's data were put back to an earlier time: then nothing that we know is
/// worth anything, here or anywhere else in the process.
pub async fn follow<K, S>(api: Api<K>, labels: Option<String>, sink: Arc<S>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K>,
{
    Follower::new(Server { api, labels }, sink).run().await;
}

/// What is to be done next.
#[derive(Clone, Copy, Debug)]
enum Next {
    List,
    /// Events are awaited after what was seen.
    Watch,
    /// Before a watch goes on: is history still the one that we saw? An API
    /// server whose data were put back accepts a version of the future, and
    /// shows nothing until it is there again.
    Compare,
}

/// Why it does not go on.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error("it is not answered")]
    Silent,
    #[error("{0:?} is no resource version")]
    NoVersion(String),
    #[error(transparent)]
    Refused(#[from] kube::Error),
    #[error("the API server is at version {now} and has been at {seen}")]
    PutBack { now: u64, seen: u64 },
}

impl Stop {
    fn is_code(&self, code: u16) -> bool {
        matches!(self, Self::Refused(kube::Error::Api(status)) if status.code == code)
    }
}

struct Follower<S, R> {
    source: R,
    sink: Arc<S>,
    /// Uids of what has been applied. A list tells of no deletions, so what it
    /// leaves out is found here; of a list that breaks off too, what it showed
    /// is known.
    known: HashMap<Key, Box<str>>,
    /// The latest version that was seen. Versions of one kind are numbers that
    /// grow (stable since Kubernetes 1.35, KEP-5504).
    seen: u64,
    backoff: Backoff,
    is_unknown: bool,
}

impl<S, R> Follower<S, R> {
    fn new(source: R, sink: Arc<S>) -> Self {
        Self {
            source,
            sink,
            known: HashMap::new(),
            seen: 0,
            backoff: Backoff::default(),
            is_unknown: false,
        }
    }

    async fn run<K>(mut self)
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
        R: Source<K>,
    {
        let kind = K::kind(&());
        let mut next = Next::List;
        loop {
            let step = match next {
                Next::List => self.list().await,
                Next::Watch => self.watch().await,
                Next::Compare => self.compare().await,
            };
            next = match (next, step) {
                (Next::List | Next::Compare, Ok(())) => Next::Watch,
                // As it should, after its time; a server that goes ends it too.
                (Next::Watch, Ok(())) => {
                    tokio::time::sleep(FIRST_PAUSE).await;
                    Next::Compare
                }
                (_, Err(stop @ Stop::PutBack { .. })) => {
                    error!(%kind, %stop, "the cluster was put back to an earlier time; all that is known is forgotten");
                    return;
                }
                (from, Err(stop)) => {
                    let unknown = stop.is_code(404);
                    if unknown {
                        for (key, uid) in self.known.drain() {
                            self.sink.delete(&key, &uid);
                        }
                        self.sink.unknown();
                    }
                    // Of a kind that a cluster need not have this is said once.
                    if !unknown {
                        warn!(%kind, %stop, "a watch is broken; it starts over");
                    } else if !self.is_unknown {
                        warn!(%kind, "the API server does not know this kind; it is asked again");
                    }
                    self.is_unknown = unknown;
                    // 410: what we saw last has been compacted away.
                    let anew = unknown || stop.is_code(410) || matches!(from, Next::List);
                    tokio::time::sleep(self.backoff.broken(Instant::now())).await;
                    if anew { Next::List } else { Next::Compare }
                }
            };
        }
    }

    async fn list<K>(&mut self) -> Result<(), Stop>
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
        R: Source<K>,
    {
        let mut listed = HashSet::new();
        let mut after = None;
        let mut first = None;
        let version = loop {
            let page = answered(self.source.list(PAGE, after)).await?;
            // All pages are of one version. Were they not, the first one's would
            // show what the others' miss.
            let version = match first {
                Some(version) => version,
                None => self.now(page.metadata.resource_version.as_deref())?,
            };
            first = Some(version);
            self.seen = version;
            for object in page.items {
                let key = self.apply(object);
                listed.insert(key);
            }
            after = page.metadata.continue_.filter(|word| !word.is_empty());
            if after.is_none() {
                break version;
            }
        };
        self.backoff.healthy();
        for (key, uid) in self.known.extract_if(|key, _| !listed.contains(key)) {
            self.sink.delete(&key, &uid);
        }
        for (key, uid) in self.sink.ghosts(&listed, version) {
            self.sink.delete(&key, &uid);
        }
        info!(kind = %K::kind(&()), objects = listed.len(), "listed");
        self.sink.synced();
        Ok(())
    }

    async fn compare<K>(&mut self) -> Result<(), Stop>
    where
        K: Resource<DynamicType = ()> + Clone,
        R: Source<K>,
    {
        let page = answered(self.source.list(1, None)).await?;
        // Nothing is skipped: the watch goes on after what was seen.
        self.now(page.metadata.resource_version.as_deref())?;
        Ok(())
    }

    async fn watch<K>(&mut self) -> Result<(), Stop>
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
        R: Source<K>,
    {
        let mut events = answered(self.source.watch(self.seen, WATCH_SECONDS)).await?;
        loop {
            let Ok(Some(event)) = tokio::time::timeout(WATCH_SILENCE, events.next()).await else {
                return Ok(());
            };
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.saw(object.meta().resource_version.as_deref())?;
                    self.apply(object);
                }
                WatchEvent::Deleted(object) => {
                    self.saw(object.meta().resource_version.as_deref())?;
                    let key = Key::of(object.meta());
                    self.known.remove(&key);
                    self.sink.delete(&key, uid(&object));
                }
                WatchEvent::Bookmark(bookmark) => {
                    self.saw(Some(&bookmark.metadata.resource_version))?;
                }
                WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
            }
            self.backoff.healthy();
        }
    }

    fn apply<K>(&mut self, object: K) -> Key
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
    {
        let key = Key::of(object.meta());
        self.known.insert(key.clone(), uid(&object).into());
        self.sink.apply(key.clone(), object);
        key
    }

    /// The version of a list: what is read now is not older than what was seen.
    fn now(&self, version: Option<&str>) -> Result<u64, Stop> {
        let now = number(version)?;
        let seen = self.seen;
        if now < seen {
            return Err(Stop::PutBack { now, seen });
        }
        Ok(now)
    }

    fn saw(&mut self, version: Option<&str>) -> Result<(), Stop> {
        self.seen = self.seen.max(number(version)?);
        Ok(())
    }
}

fn number(version: Option<&str>) -> Result<u64, Stop> {
    let word = version.unwrap_or_default();
    word.parse().map_err(|_| Stop::NoVersion(word.to_owned()))
}

async fn answered<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Stop> {
    match tokio::time::timeout(ANSWER, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Stop::Silent),
    }
}

fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
