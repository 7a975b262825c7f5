//! One kind, followed for ever.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{ObjectMeta, WatchEvent};
use kube::core::ObjectList;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::backoff::{Backoff, FIRST_PAUSE};
use super::item::{Item, Undecodable};
use super::pulse::Pulse;
use super::source::{Server, Source};
use crate::gang::key::Key;

/// Longest watch call: load balancers cut at 240 s.
const WATCH_SECONDS: u32 = 200;
/// Longest silence of a watch: its bookmarks come each minute, if they do. Of
/// kinds of which nothing was written since it began an API server has none.
const WATCH_SILENCE: Duration = Duration::from_secs(100);
/// A watch that ends sooner, and has shown nothing, is a broken one.
const AT_ONCE: Duration = Duration::from_secs(5);
/// How long an API server may be behind another: then its data were put back.
const BEHIND: Duration = Duration::from_secs(2);
/// Longest wait for a page of a list, and for a watch to begin.
const ANSWER: Duration = Duration::from_secs(30);
/// Objects of one page.
const PAGE: u32 = 500;

/// Where the events of one watch go.
pub trait Sink<K>: Send + Sync + 'static {
    /// There are clusters whose API server does not know the kind: then it has
    /// no objects. Of any other kind that is a fault, and says nothing of them.
    const MAY_BE_ABSENT: bool = false;

    /// The object is there, new or changed.
    fn apply(&self, key: Key, object: K);
    /// The object is there, new or changed, and does not decode. It is as if it
    /// were gone until it does, except where that would do harm.
    fn undecodable(&self, key: &Key, object: Undecodable) {
        self.delete(key, &object.uid);
    }
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
    /// The API server does not know the kind, and need not. It is asked again.
    fn unknown(&self) {}
}

/// Follows one kind for as long as its history goes on. Returns if the API
/// server's data were put back to an earlier time: then nothing that we know is
/// worth anything, here or anywhere else in the process.
pub async fn follow<K, S>(client: Client, labels: Option<String>, sink: Arc<S>, pulse: Pulse)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K>,
{
    let api = Api::all(client);
    Follower::new(Server { api, labels }, sink, pulse)
        .run()
        .await;
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
    Unanswered,
    #[error("nothing comes, not even a bookmark")]
    Silent,
    #[error("it ends as soon as it begins")]
    Ended,
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

    /// A watch from where we are would not come further: what was seen last has
    /// been compacted away, or what follows is no event.
    fn is_final(&self) -> bool {
        self.is_code(410) || matches!(self, Self::Refused(kube::Error::SerdeError(_)))
    }

    /// Whether something has been missed is not known: a list shows it. There may
    /// be no bookmarks any more, too, if the API server has begun anew.
    fn is_doubtful(&self) -> bool {
        matches!(self, Self::Silent)
    }
}

struct Follower<S, R> {
    source: R,
    sink: Arc<S>,
    /// What is known is of that time.
    pulse: Pulse,
    /// Uids of what has been applied. A list tells of no deletions, so what it
    /// leaves out is found here; of a list that breaks off too, what it showed
    /// is known.
    known: HashMap<Key, Box<str>>,
    /// The latest version that was seen. Versions of one kind are numbers that
    /// grow (stable since Kubernetes 1.35, KEP-5504).
    seen: u64,
    backoff: Backoff,
    is_unknown: bool,
    has_bookmarks: bool,
}

impl<S, R> Follower<S, R> {
    fn new(source: R, sink: Arc<S>, pulse: Pulse) -> Self {
        Self {
            source,
            sink,
            pulse,
            known: HashMap::new(),
            seen: 0,
            backoff: Backoff::default(),
            is_unknown: false,
            has_bookmarks: false,
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
                    self.pulse.beat();
                    tokio::time::sleep(FIRST_PAUSE).await;
                    Next::Compare
                }
                (_, Err(stop @ Stop::PutBack { .. })) => {
                    error!(%kind, %stop, "the cluster was put back to an earlier time; all that is known is forgotten");
                    return;
                }
                (from, Err(stop)) => {
                    let unknown = S::MAY_BE_ABSENT && stop.is_code(404);
                    if unknown {
                        for (key, uid) in self.known.drain() {
                            self.sink.delete(&key, &uid);
                        }
                        self.sink.unknown();
                        self.pulse.beat();
                    }
                    // Of a kind that a cluster need not have this is said once.
                    if !unknown {
                        warn!(%kind, %stop, "a watch is broken; it starts over");
                    } else if !self.is_unknown {
                        warn!(%kind, "the API server does not know this kind; it is asked again");
                    }
                    self.is_unknown = unknown;
                    let anew = unknown
                        || stop.is_final()
                        || stop.is_doubtful()
                        || matches!(from, Next::List);
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
        // All pages are of one version. Were they not, the first one's would show
        // what the others' miss.
        let (mut page, version) = self.first_page(PAGE).await?;
        self.seen = version;
        loop {
            listed.extend(page.items.into_iter().filter_map(|item| self.apply(item)));
            let after = page.metadata.continue_.filter(|word| !word.is_empty());
            if after.is_none() {
                break;
            }
            page = answered(self.source.list(PAGE, after)).await?;
        }
        for (key, uid) in self.known.extract_if(|key, _| !listed.contains(key)) {
            self.sink.delete(&key, &uid);
        }
        for (key, uid) in self.sink.ghosts(&listed, version) {
            self.sink.delete(&key, &uid);
        }
        info!(kind = %K::kind(&()), objects = listed.len(), "listed");
        self.pulse.beat();
        self.sink.synced();
        Ok(())
    }

    async fn compare<K>(&self) -> Result<(), Stop>
    where
        K: Resource<DynamicType = ()> + Clone,
        R: Source<K>,
    {
        // Nothing is skipped: the watch goes on after what was seen.
        self.first_page(1).await?;
        Ok(())
    }

    /// The first objects, and the version of now. It is not before what was
    /// seen: of several API servers one may be behind for a moment, and is asked
    /// again.
    async fn first_page<K>(&self, limit: u32) -> Result<(ObjectList<Item<K>>, u64), Stop>
    where
        K: Resource<DynamicType = ()> + Clone,
        R: Source<K>,
    {
        let mut is_second = false;
        loop {
            let page = answered(self.source.list(limit, None)).await?;
            let now = number(page.metadata.resource_version.as_deref())?;
            let seen = self.seen;
            if now >= seen {
                return Ok((page, now));
            }
            if is_second {
                return Err(Stop::PutBack { now, seen });
            }
            is_second = true;
            tokio::time::sleep(BEHIND).await;
        }
    }

    async fn watch<K>(&mut self) -> Result<(), Stop>
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
        R: Source<K>,
    {
        let began = Instant::now();
        let mut events = answered(self.source.watch(self.seen, WATCH_SECONDS)).await?;
        let mut showed = false;
        let mut lasts = false;
        loop {
            let silence = match (showed, lasts) {
                (true, _) => WATCH_SILENCE,
                (false, false) => AT_ONCE,
                (false, true) => WATCH_SILENCE.saturating_sub(AT_ONCE),
            };
            let next = tokio::time::timeout(silence, events.next()).await;
            let event = match next {
                // From here on it would tell of whatever happens.
                Err(_) if !showed && !lasts => {
                    lasts = true;
                    self.pulse.beat();
                    continue;
                }
                Ok(Some(event)) => event?,
                Ok(None) if !showed && began.elapsed() < AT_ONCE => return Err(Stop::Ended),
                Err(_) if self.has_bookmarks => return Err(Stop::Silent),
                Ok(None) | Err(_) => return Ok(()),
            };
            self.take(event)?;
            showed = true;
            self.pulse.beat();
            self.backoff.healthy();
        }
    }

    fn take<K>(&mut self, event: WatchEvent<Item<K>>) -> Result<(), Stop>
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
    {
        match event {
            WatchEvent::Added(item) | WatchEvent::Modified(item) => {
                self.saw_item(&item)?;
                self.apply(item);
            }
            WatchEvent::Deleted(item) => {
                self.saw_item(&item)?;
                self.delete(&item);
            }
            WatchEvent::Bookmark(bookmark) => {
                self.saw(Some(&bookmark.metadata.resource_version))?;
                self.has_bookmarks = true;
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
        }
        Ok(())
    }

    /// None: it has no name that can be read.
    fn apply<K>(&mut self, item: Item<K>) -> Option<Key>
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
    {
        let key = Key::of(item.meta());
        match item {
            Item::Object(object) => {
                self.known.insert(key.clone(), uid(object.meta()).into());
                self.sink.apply(key.clone(), object);
            }
            Item::Undecodable { meta, error } => {
                warn!(kind = %K::kind(&()), object = %key, uid = uid(&meta), %error, "an object does not decode");
                meta.name.as_ref()?;
                let before = self.known.insert(key.clone(), uid(&meta).into());
                if let Some(before) = before.filter(|before| **before != *uid(&meta)) {
                    self.sink.delete(&key, &before);
                }
                let object = Undecodable {
                    uid: uid(&meta).to_owned(),
                    generation: meta.generation,
                    error,
                };
                self.sink.undecodable(&key, object);
            }
        }
        Some(key)
    }

    /// It is gone, whether or not it decodes.
    fn delete<K>(&mut self, item: &Item<K>)
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
    {
        let meta = item.meta();
        if meta.name.is_some() {
            let key = Key::of(meta);
            self.known.remove(&key);
            self.sink.delete(&key, uid(meta));
        }
    }

    /// What does not decode may not tell its version.
    fn saw_item<K: Resource>(&mut self, item: &Item<K>) -> Result<(), Stop> {
        let saw = self.saw(item.meta().resource_version.as_deref());
        match item {
            Item::Object(_) => saw,
            Item::Undecodable { .. } => Ok(()),
        }
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
        Err(_) => Err(Stop::Unanswered),
    }
}

fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
