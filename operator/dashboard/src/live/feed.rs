//! One list of one user, kept current by watches while a tab follows it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use trellis_api::visibility::{JobState, NodeState, QueueState};
use trellis_reads::nodes::NodeFollower;
use trellis_reads::queue::{JobScope, QueueFollower};
use trellis_reads::{ReadError, Reader};

use super::diff::Rows;
use super::order::QueueOrders;
use super::row::Reading;
use crate::answer::Refusal;

/// Time after a failed read.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Number of past moments whose changes can be told.
const MAX_MOMENTS: usize = 32;

/// A list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ListName {
    /// Jobs and queues. A namespace restricts the jobs.
    Queue {
        /// None: all namespaces, or the namespace of the user if the user may not see all.
        namespace: Option<String>,
    },
    /// Nodes.
    Nodes,
}

/// The content of a list at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// Grows with each change.
    pub(crate) version: i64,
    /// Time of the read.
    pub(crate) time: Timestamp,
    pub(crate) jobs: Rows<JobState>,
    /// The order of the jobs that wait. The positions in `jobs` may be older. None: a list of one
    /// namespace, in which the jobs of other namespaces leave gaps between the positions.
    pub(crate) orders: Option<QueueOrders>,
    /// None: the user may not see the queues.
    pub(crate) queues: Option<Rows<QueueState>>,
    pub(crate) nodes: Rows<NodeState>,
    pub(crate) notes: Vec<String>,
}

/// Numbers the versions of all lists of one server. A list that is read anew, after no tab has
/// followed it for a while, gets none of its earlier versions: a tab that was hidden may have one.
/// The first version is the time of the start in microseconds, so that a server that starts again
/// does not repeat versions, either.
#[derive(Debug)]
pub(crate) struct Versions(AtomicI64);

impl Default for Versions {
    fn default() -> Self {
        Self(AtomicI64::new(Timestamp::now().as_microsecond()))
    }
}

impl Versions {
    fn next(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// The last read.
#[derive(Clone, Debug)]
pub(crate) enum LastRead {
    /// It gave this content.
    Content(Arc<Moment>),
    /// It failed.
    Failed(Refusal),
}

/// A list of one user.
#[derive(Debug)]
pub(crate) struct Feed {
    name: ListName,
    versions: Arc<Versions>,
    last: watch::Sender<Option<LastRead>>,
    moments: Mutex<VecDeque<Arc<Moment>>>,
}

impl ListName {
    /// The name of the list in the stream.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Queue { .. } => "queue",
            Self::Nodes => "nodes",
        }
    }
}

impl Feed {
    /// Starts to read the list. The reads end when the feed is dropped.
    pub(crate) fn start(name: ListName, reader: Reader, versions: Arc<Versions>) -> Arc<Self> {
        let feed = Arc::new(Self {
            name,
            versions,
            last: watch::Sender::new(None),
            moments: Mutex::default(),
        });
        let reads = read_repeatedly(feed.name.clone(), reader, Arc::downgrade(&feed));
        tokio::spawn(reads);
        feed
    }

    pub(crate) fn name(&self) -> &ListName {
        &self.name
    }

    /// Tells of each read.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<LastRead>> {
        self.last.subscribe()
    }

    /// Returns the content, after the first read.
    pub(crate) async fn content(&self) -> Result<Arc<Moment>, Refusal> {
        let mut reads = self.subscribe();
        let last = reads.wait_for(Option::is_some).await;
        let last = last.map_err(|_| Refusal::internal("the reads have ended"))?;
        match last.as_ref() {
            Some(LastRead::Content(moment)) => Ok(moment.clone()),
            Some(LastRead::Failed(refusal)) => Err(refusal.clone()),
            None => Err(Refusal::internal("nothing was read")),
        }
    }

    /// Returns the content of this version, if it is one of the last.
    pub(crate) fn moment(&self, version: i64) -> Option<Arc<Moment>> {
        let moments = self.moments.lock();
        let mut moments = moments.iter();
        moments.find(|moment| moment.version == version).cloned()
    }

    /// Takes the content of a look.
    fn take(&self, source: &Source) {
        let mut moments = self.moments.lock();
        let before = moments.back().cloned();
        let mut content = source.moment(before.as_deref(), Timestamp::now());
        let same = before.filter(|before| !content.differs(before));
        content.version = match &same {
            Some(same) => same.version,
            None => self.versions.next(),
        };
        let content = Arc::new(content);
        if same.is_some() {
            moments.pop_back();
        }
        moments.push_back(content.clone());
        if moments.len() > MAX_MOMENTS {
            moments.pop_front();
        }
        drop(moments);
        self.last.send_replace(Some(LastRead::Content(content)));
    }
}

/// Where the content of a list comes from.
enum Source {
    Queue(Box<QueueFollower>),
    Nodes(Box<NodeFollower>),
}

impl Source {
    async fn start(name: &ListName, reader: &Reader) -> Result<Self, ReadError> {
        match name {
            ListName::Queue { namespace } => {
                let (reader, scope) = match namespace {
                    Some(namespace) => (reader.in_namespace(namespace), JobScope::Own),
                    None => (reader.clone(), JobScope::AllOrOwn),
                };
                let follower = QueueFollower::start(&reader, scope).await?;
                Ok(Self::Queue(Box::new(follower)))
            }
            ListName::Nodes => Ok(Self::Nodes(Box::new(NodeFollower::start(reader).await?))),
        }
    }

    async fn renew(&mut self) -> Result<(), ReadError> {
        match self {
            Self::Queue(queue) => queue.renew().await,
            Self::Nodes(nodes) => nodes.renew().await,
        }
    }

    /// The content of the last look. Rows without news are those of `before`.
    fn moment(&self, before: Option<&Moment>, now: Timestamp) -> Moment {
        let empty = Moment::empty(now);
        let before = before.unwrap_or(&empty);
        match self {
            Self::Queue(queue) => {
                let reading = Reading {
                    now,
                    has_orders: queue.is_complete(),
                };
                let none = Rows::default();
                let old_queues = before.queues.as_ref().unwrap_or(&none);
                let jobs = queue.jobs();
                let queues = queue.queues();
                let orders = || QueueOrders::read(jobs.values().map(AsRef::as_ref));
                Moment {
                    orders: queue.is_complete().then(orders),
                    jobs: Rows::renew(&before.jobs, jobs.values(), reading),
                    queues: queues.map(|queues| Rows::renew(old_queues, queues.values(), reading)),
                    notes: queue.notes().to_vec(),
                    ..empty
                }
            }
            Self::Nodes(nodes) => {
                let reading = Reading {
                    now,
                    has_orders: false,
                };
                Moment {
                    nodes: Rows::renew(&before.nodes, nodes.nodes().values(), reading),
                    ..empty
                }
            }
        }
    }
}

impl Moment {
    fn empty(time: Timestamp) -> Self {
        Self {
            version: 0,
            time,
            jobs: Rows::default(),
            orders: None,
            queues: None,
            nodes: Rows::default(),
            notes: Vec::new(),
        }
    }

    fn differs(&self, before: &Self) -> bool {
        let queues_differ = match (&self.queues, &before.queues) {
            (None, None) => false,
            (Some(new), Some(old)) => !new.changes_since(old).is_empty(),
            _ => true,
        };
        queues_differ
            || self.notes != before.notes
            || self.orders != before.orders
            || !self.jobs.changes_since(&before.jobs).is_empty()
            || !self.nodes.changes_since(&before.nodes).is_empty()
    }
}

/// Follows the list until the feed is dropped.
async fn read_repeatedly(name: ListName, reader: Reader, feed: Weak<Feed>) {
    let mut source = None;
    while feed.strong_count() > 0 {
        let read = match &mut source {
            None => Source::start(&name, &reader)
                .await
                .map(|started| source = Some(started)),
            Some(source) => source.renew().await,
        };
        let Some(current) = feed.upgrade() else {
            return;
        };
        if let Some(source) = source.as_ref().filter(|_| read.is_ok()) {
            current.take(source);
        }
        if let Err(error) = read {
            let failed = LastRead::Failed(error.into());
            current.last.send_replace(Some(failed));
            drop(current);
            source = None;
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}
