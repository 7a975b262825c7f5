//! Follows one kind: lists it, watches it, and repairs the watch until the process ends.

mod events;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::core::ObjectList;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::{error, info, warn};
use trellis_gang::key::Key;

use super::backoff::{Backoff, FIRST_PAUSE};
use super::item::{Undecodable, WatchedItem};
use super::pulse::Pulse;
use super::source::{ApiServerSource, WatchSource};

/// Longest watch call: load balancers cut connections at 240 s.
const WATCH_SECONDS: u32 = 200;
/// Longest silence of a watch. Bookmarks come once a minute, but an API server sends none for a
/// kind if no object of it was written since the server started.
const WATCH_SILENCE: Duration = Duration::from_secs(100);
/// A watch that ends sooner without an event is broken.
const MIN_WATCH_TIME: Duration = Duration::from_secs(5);
/// Longest lag of an API server behind another one. After a longer lag, etcd counts as restored
/// from a backup.
const MAX_SERVER_LAG: Duration = Duration::from_secs(2);
/// Longest wait for one page of a list, and for a watch to begin.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Objects per page.
const PAGE_SIZE: u32 = 500;

/// Receiver of the events of one watch.
pub trait Sink<K>: Send + Sync + 'static {
    /// True for a kind that a cluster may lack: a 404 then means that there are no objects. For any
    /// other kind, a 404 is an error and says nothing about the kind's objects.
    const MAY_BE_ABSENT: bool = false;

    /// True if the cache counts the kind as listed when `synced` is called for the first time. A
    /// sink that reports completeness in another way does not count.
    const COUNTS_AS_LISTED: bool = true;

    /// Handles an object that was created or changed.
    fn apply(&self, key: Key, object: K);
    /// Handles an object that was created or changed, and does not decode. The default treats it as
    /// deleted until it decodes. A sink for which that would be harmful keeps the object.
    fn undecodable(&self, key: &Key, object: Undecodable) {
        self.delete(key, &object.uid);
    }
    /// Handles the deletion of the object with this uid.
    fn delete(&self, key: &Key, uid: &str);
    /// Handles a complete list of this version, with the keys of all listed objects. Returns the
    /// uids of objects that the sink knows from answers to our own requests and that are not in the
    /// list. The watch will not report their deletion.
    fn unlisted_objects(&self, _listed: &HashSet<Key>, _version: u64) -> Vec<(Key, String)> {
        Vec::new()
    }
    /// Called once after each list, when the sink has received all its objects.
    fn synced(&self);
    /// Handles an API server that does not know a kind that may be absent. The follower tries again
    /// later.
    fn kind_unknown(&self) {}
}

/// Follows one kind. Returns if etcd was restored to an earlier state. In that case, all cached
/// data of the process are invalid.
pub async fn follow<K, S>(client: Client, labels: Option<String>, sink: Arc<S>, pulse: Pulse)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K>,
{
    let api = Api::all(client);
    Follower::new(ApiServerSource { api, labels }, sink, pulse)
        .run()
        .await;
}

/// The next step of the follower.
#[derive(Clone, Copy, Debug)]
enum FollowStep {
    List,
    /// Watch from the last version that was seen.
    Watch,
    /// Before a watch resumes, check that the API server's version has not gone back. A restored
    /// API server accepts a future version, and sends no event until it reaches that version.
    CheckVersion,
}

/// Why a step ended.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("it is not answered")]
    Unanswered,
    #[error("nothing comes, not even a bookmark")]
    Silent,
    #[error("it ends as soon as it begins")]
    EndedAtOnce,
    #[error("{0:?} is no resource version")]
    InvalidVersion(String),
    #[error(transparent)]
    RequestFailed(#[from] kube::Error),
    #[error("the API server is at version {now} and has been at {seen}")]
    VersionWentBack { now: u64, seen: u64 },
}

impl FollowError {
    fn is_code(&self, code: u16) -> bool {
        matches!(self, Self::RequestFailed(kube::Error::Api(status)) if status.code == code)
    }

    /// Returns true if the watch cannot resume: its version was compacted away, or the answer does
    /// not decode as an event.
    fn is_final(&self) -> bool {
        self.is_code(410) || matches!(self, Self::RequestFailed(kube::Error::SerdeError(_)))
    }

    /// Returns true if events may have been missed, so that a list is needed. If the API server was
    /// restarted, it may also have stopped sending bookmarks.
    fn may_have_missed_events(&self) -> bool {
        matches!(self, Self::Silent)
    }
}

struct Follower<S, R> {
    source: R,
    sink: Arc<S>,
    /// Records every sign that the cache is current.
    pulse: Pulse,
    /// Uids of the objects that were applied. A list does not report deletions. So an object that
    /// is known but missing in the list was deleted. Objects from an interrupted list are known,
    /// too.
    uids: BTreeMap<Key, Box<str>>,
    /// The latest version that was seen. Versions of one kind are increasing numbers (stable since
    /// Kubernetes 1.35, KEP-5504).
    latest_version: u64,
    backoff: Backoff,
    is_kind_unknown: bool,
    has_bookmarks: bool,
}

impl<S, R> Follower<S, R> {
    fn new(source: R, sink: Arc<S>, pulse: Pulse) -> Self {
        Self {
            source,
            sink,
            pulse,
            uids: BTreeMap::new(),
            latest_version: 0,
            backoff: Backoff::default(),
            is_kind_unknown: false,
            has_bookmarks: false,
        }
    }

    async fn run<K>(mut self)
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
        R: WatchSource<K>,
    {
        let kind = K::kind(&());
        let mut next = FollowStep::List;
        loop {
            let step = match next {
                FollowStep::List => self.list().await,
                FollowStep::Watch => self.watch().await,
                FollowStep::CheckVersion => self.check_version().await,
            };
            next = match (next, step) {
                (FollowStep::List | FollowStep::CheckVersion, Ok(())) => FollowStep::Watch,
                // The watch ended after its time, or the server shut down.
                (FollowStep::Watch, Ok(())) => {
                    self.pulse.beat();
                    tokio::time::sleep(FIRST_PAUSE).await;
                    FollowStep::CheckVersion
                }
                (_, Err(stop @ FollowError::VersionWentBack { .. })) => {
                    error!(%kind, %stop, "the cluster was put back to an earlier time; all that is known is forgotten");
                    return;
                }
                (from, Err(stop)) => {
                    let unknown = S::MAY_BE_ABSENT && stop.is_code(404);
                    if unknown {
                        for (key, uid) in std::mem::take(&mut self.uids) {
                            self.sink.delete(&key, &uid);
                        }
                        self.sink.kind_unknown();
                        self.pulse.beat();
                    }
                    // Logs the absence of an optional kind only once.
                    if !unknown {
                        warn!(%kind, %stop, "a watch is broken; it starts over");
                    } else if !self.is_kind_unknown {
                        warn!(%kind, "the API server does not know this kind; it is asked again");
                    }
                    self.is_kind_unknown = unknown;
                    let anew = unknown
                        || stop.is_final()
                        || stop.may_have_missed_events()
                        || matches!(from, FollowStep::List);
                    tokio::time::sleep(self.backoff.record_break(Instant::now())).await;
                    if anew {
                        FollowStep::List
                    } else {
                        FollowStep::CheckVersion
                    }
                }
            };
        }
    }

    async fn list<K>(&mut self) -> Result<(), FollowError>
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
        R: WatchSource<K>,
    {
        let mut listed = HashSet::new();
        // All pages have one version. If they had not, the watch from the first page's version
        // would show the changes that later pages miss.
        let (mut page, version) = self.first_page(PAGE_SIZE).await?;
        self.latest_version = version;
        loop {
            listed.extend(page.items.into_iter().filter_map(|item| self.apply(item)));
            let after = page.metadata.continue_.filter(|word| !word.is_empty());
            if after.is_none() {
                break;
            }
            page = with_timeout(self.source.list(PAGE_SIZE, after)).await?;
        }
        for (key, uid) in self.uids.extract_if(.., |key, _| !listed.contains(key)) {
            self.sink.delete(&key, &uid);
        }
        for (key, uid) in self.sink.unlisted_objects(&listed, version) {
            self.sink.delete(&key, &uid);
        }
        info!(kind = %K::kind(&()), objects = listed.len(), "listed");
        self.pulse.beat();
        self.sink.synced();
        Ok(())
    }

    async fn check_version<K>(&self) -> Result<(), FollowError>
    where
        K: Resource<DynamicType = ()> + Clone,
        R: WatchSource<K>,
    {
        // This skips no event: the watch resumes after the last version that was seen.
        self.first_page(1).await?;
        Ok(())
    }

    /// Returns the first page, and the current version. An older version than the latest may come
    /// from an API server that lags behind. So the follower repeats the request once before it
    /// returns [`FollowError::VersionWentBack`].
    async fn first_page<K>(
        &self,
        limit: u32,
    ) -> Result<(ObjectList<WatchedItem<K>>, u64), FollowError>
    where
        K: Resource<DynamicType = ()> + Clone,
        R: WatchSource<K>,
    {
        let mut is_second = false;
        loop {
            let page = with_timeout(self.source.list(limit, None)).await?;
            let now = parse_version(page.metadata.resource_version.as_deref())?;
            let seen = self.latest_version;
            if now >= seen {
                return Ok((page, now));
            }
            if is_second {
                return Err(FollowError::VersionWentBack { now, seen });
            }
            is_second = true;
            tokio::time::sleep(MAX_SERVER_LAG).await;
        }
    }

    async fn watch<K>(&mut self) -> Result<(), FollowError>
    where
        K: Resource<DynamicType = ()> + Clone,
        S: Sink<K>,
        R: WatchSource<K>,
    {
        let began = Instant::now();
        let mut events =
            with_timeout(self.source.watch(self.latest_version, WATCH_SECONDS)).await?;
        let mut showed = false;
        let mut lasts = false;
        loop {
            let silence = match (showed, lasts) {
                (true, _) => WATCH_SILENCE,
                (false, false) => MIN_WATCH_TIME,
                (false, true) => WATCH_SILENCE.saturating_sub(MIN_WATCH_TIME),
            };
            let next = tokio::time::timeout(silence, events.next()).await;
            let event = match next {
                // The watch is established. From here on it reports every event.
                Err(_) if !showed && !lasts => {
                    lasts = true;
                    self.pulse.beat();
                    continue;
                }
                Ok(Some(event)) => event?,
                Ok(None) if !showed && began.elapsed() < MIN_WATCH_TIME => {
                    return Err(FollowError::EndedAtOnce);
                }
                Err(_) if self.has_bookmarks => return Err(FollowError::Silent),
                Ok(None) | Err(_) => return Ok(()),
            };
            self.handle_event(event)?;
            showed = true;
            self.pulse.beat();
            self.backoff.reset();
        }
    }
}

fn parse_version(version: Option<&str>) -> Result<u64, FollowError> {
    let word = version.unwrap_or_default();
    word.parse()
        .map_err(|_| FollowError::InvalidVersion(word.to_owned()))
}

async fn with_timeout<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, FollowError> {
    match tokio::time::timeout(ANSWER_TIMEOUT, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(FollowError::Unanswered),
    }
}

#[cfg(test)]
mod tests;
