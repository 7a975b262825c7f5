//! One list of one user, read again and again while a tab follows it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use trellis_api::visibility::{JobState, NodeState, QueueState};
use trellis_reads::nodes::read_nodes;
use trellis_reads::queue::{JobScope, read_queues};
use trellis_reads::{ReadError, Reader};

use super::diff::Rows;
use super::order::QueueOrders;
use super::row::Reading;
use crate::answer::Refusal;

/// Time between two reads of the queue, as in `trellis queue --watch`.
const QUEUE_INTERVAL: Duration = Duration::from_secs(5);

/// Time between two reads of the nodes.
const NODES_INTERVAL: Duration = Duration::from_secs(10);

/// Number of past moments whose changes can be told.
const MAX_MOMENTS: usize = 16;

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
    reader: Reader,
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

    fn interval(&self) -> Duration {
        match self {
            Self::Queue { .. } => QUEUE_INTERVAL,
            Self::Nodes => NODES_INTERVAL,
        }
    }
}

impl Feed {
    /// Starts to read the list. The reads end when the feed is dropped.
    pub(crate) fn start(name: ListName, reader: Reader, versions: Arc<Versions>) -> Arc<Self> {
        let feed = Arc::new(Self {
            name,
            reader,
            versions,
            last: watch::Sender::new(None),
            moments: Mutex::default(),
        });
        tokio::spawn(read_repeatedly(Arc::downgrade(&feed)));
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

    async fn read(&self) -> LastRead {
        let now = Timestamp::now();
        let before = self.moments.lock().back().cloned();
        match self.read_content(before.as_deref(), now).await {
            Err(error) => LastRead::Failed(error.into()),
            Ok(mut content) => {
                let same = before.filter(|before| !content.differs(before));
                content.version = match &same {
                    Some(same) => same.version,
                    None => self.versions.next(),
                };
                let content = Arc::new(content);
                let mut moments = self.moments.lock();
                if same.is_some() {
                    moments.pop_back();
                }
                moments.push_back(content.clone());
                if moments.len() > MAX_MOMENTS {
                    moments.pop_front();
                }
                LastRead::Content(content)
            }
        }
    }

    async fn read_content(
        &self,
        before: Option<&Moment>,
        now: Timestamp,
    ) -> Result<Moment, ReadError> {
        let empty = Moment::empty(now);
        let before = before.unwrap_or(&empty);
        match &self.name {
            ListName::Queue { namespace } => {
                let (reader, scope) = match namespace {
                    Some(namespace) => (self.reader.in_namespace(namespace), JobScope::Own),
                    None => (self.reader.clone(), JobScope::AllOrOwn),
                };
                let read = read_queues(&reader, scope, None).await?;
                let reading = Reading {
                    now,
                    has_orders: read.is_complete,
                };
                let none = Rows::default();
                let old_queues = before.queues.as_ref().unwrap_or(&none);
                let queues = read.queues;
                Ok(Moment {
                    orders: read.is_complete.then(|| QueueOrders::read(&read.jobs)),
                    jobs: Rows::renew(&before.jobs, read.jobs, reading),
                    queues: queues.map(|queues| Rows::renew(old_queues, queues, reading)),
                    notes: read.notes,
                    ..empty
                })
            }
            ListName::Nodes => {
                let read = read_nodes(&self.reader).await?;
                let reading = Reading {
                    now,
                    has_orders: false,
                };
                Ok(Moment {
                    nodes: Rows::renew(&before.nodes, read, reading),
                    ..empty
                })
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

async fn read_repeatedly(feed: Weak<Feed>) {
    loop {
        let Some(current) = feed.upgrade() else {
            return;
        };
        let read = current.read().await;
        current.last.send_replace(Some(read));
        let interval = current.name.interval();
        drop(current);
        tokio::time::sleep(interval).await;
    }
}
