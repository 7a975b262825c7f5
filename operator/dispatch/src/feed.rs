//! Events of the scheduler, and the channel that carries them.
//!
//! A pending event about an object is replaced by a later one about it. So the queue is bounded by
//! the number of objects, however busy the scheduler is and however many events come in. There is
//! no back-pressure: a watch that waited for the scheduler would fall behind the API server's
//! history, and the scheduler's own tasks report their results here.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use trellis_gang::Wish;
use trellis_gang::key::Key;
use trellis_gang::observed::{Repulsion, SlimPod};
use trellis_gang::pod_usage::PodUsage;
use trellis_gang::quota::{JobLimits, LimitsReport};
use trellis_scheduler::{QueueName, Resources, Snapshot};

use super::commit::Outcome;
use super::{QueueReport, TotalsReport};

/// An event of the scheduler.
#[derive(Debug)]
pub enum Feed {
    /// A node is new, changed or gone.
    Node(Arc<str>),
    /// A pod holds resources of a node.
    Pod {
        /// The pod.
        pod: Key,
        /// Its uid.
        uid: Box<str>,
        /// The node.
        node: Arc<str>,
        /// Resources that the pod holds.
        request: Resources,
        /// When a pod that is being deleted will be gone.
        leaves: Option<Timestamp>,
    },
    /// A pod is gone, or has failed. A placed gang keeps its resources, because the pod may be
    /// replaced.
    PodGone(Key),
    /// A pod has succeeded and holds no resources any more.
    PodDone(Key),
    /// The anti-affinity of a foreign pod keeps pods out of other domains than before.
    Repulsion(Arc<Repulsion>),
    /// A DeviceClass is new, changed or gone.
    DeviceClass,
    /// A queue is new, changed or gone.
    Queue(Arc<str>),
    /// A flavor is new, changed or gone.
    Flavor(Arc<str>),
    /// A topology is new, changed or gone.
    Topology(Arc<str>),
    /// A namespace's core ResourceQuotas changed.
    NamespaceQuota(Arc<str>),
    /// A job or one of its children has changed.
    Look(Key),
    /// Limits that a job draws on.
    Limits(Key, Arc<JobLimits>),
    /// Wish of the controller for a gang. None: the job is gone.
    Wish(Key, Option<Wish>),
    /// The controller has looked at a job, but cannot decide on a wish.
    Unsaid(Key),
    /// Asks for the usage of all queues.
    AskQueues(oneshot::Sender<BTreeMap<QueueName, QueueReport>>),
    /// Asks for the totals of the cluster.
    AskTotals(oneshot::Sender<TotalsReport>),
    /// Asks for the usage of the limits of QuotaPolicies.
    AskLimits(oneshot::Sender<LimitsReport>),
    /// Asks for a snapshot of the engine.
    AskSnapshot(oneshot::Sender<Arc<Snapshot>>),
    /// A task has written conditions of an external gang's pods: its number, and the uids of pods
    /// whose write failed.
    Told(Key, u64, Vec<String>),
    /// A task has ended.
    Ended(Key, Outcome),
}

impl Feed {
    /// The event by which the engine learns of a pod on its node.
    #[must_use]
    pub fn pod(key: Key, pod: &SlimPod) -> Self {
        match PodUsage::of(pod) {
            PodUsage::Done => Self::PodDone(key),
            PodUsage::Holds {
                node,
                request,
                leaves,
            } => Self::Pod {
                uid: pod.metadata.uid.as_deref().unwrap_or_default().into(),
                node: node.into(),
                request,
                leaves,
                pod: key,
            },
            PodUsage::None => Self::PodGone(key),
        }
    }
}

/// Subject of an event.
#[derive(PartialEq, Eq, Hash, Debug)]
enum About {
    Node(Arc<str>),
    Pod(Key),
    /// The term in words.
    Repulsion(String),
    DeviceClass,
    Queue(Arc<str>),
    Flavor(Arc<str>),
    Topology(Arc<str>),
    NamespaceQuota(Arc<str>),
    Look(Key),
    Unsaid(Key),
    Limits(Key),
    Wish(Key),
    /// Not the same subject as a wish, so that the wish for the next job of that name does not
    /// replace the deletion.
    JobGone(Key),
}

impl Feed {
    /// None: the event is never replaced. There are few such events: results of the one task of
    /// each gang, and queries.
    fn about(&self) -> Option<About> {
        Some(match self {
            Self::Node(name) => About::Node(name.clone()),
            Self::Pod { pod, .. } | Self::PodGone(pod) | Self::PodDone(pod) => {
                About::Pod(pod.clone())
            }
            Self::Repulsion(repulsion) => About::Repulsion(repulsion.words()),
            Self::DeviceClass => About::DeviceClass,
            Self::Queue(name) => About::Queue(name.clone()),
            Self::Flavor(name) => About::Flavor(name.clone()),
            Self::Topology(name) => About::Topology(name.clone()),
            Self::NamespaceQuota(namespace) => About::NamespaceQuota(namespace.clone()),
            Self::Look(job) => About::Look(job.clone()),
            Self::Unsaid(job) => About::Unsaid(job.clone()),
            Self::Limits(job, _) => About::Limits(job.clone()),
            Self::Wish(job, Some(_)) => About::Wish(job.clone()),
            Self::Wish(job, None) => About::JobGone(job.clone()),
            Self::AskQueues(_)
            | Self::AskTotals(_)
            | Self::AskLimits(_)
            | Self::AskSnapshot(_)
            | Self::Told(..)
            | Self::Ended(..) => return None,
        })
    }
}

/// Events that the scheduler has not taken yet.
#[derive(Debug, Default)]
struct Waiting {
    /// By the time of sending, so that order is kept: if a node shrinks and then a pod releases
    /// resources, the scheduler must not see it the other way round.
    feeds: BTreeMap<u64, Feed>,
    times: HashMap<About, u64>,
    now: u64,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    told: Notify,
}

/// The sender of the channel.
#[derive(Clone, Debug)]
pub struct Tell(Arc<Shared>);

/// The receiver of the channel.
#[derive(Debug)]
pub struct Heard(Arc<Shared>);

/// Creates a channel to the scheduler.
#[must_use]
pub fn channel() -> (Tell, Heard) {
    let shared = Arc::<Shared>::default();
    (Tell(shared.clone()), Heard(shared))
}

impl Tell {
    /// Sends an event. Never waits.
    pub fn send(&self, feed: Feed) {
        let about = feed.about();
        let mut waiting = self.0.waiting.lock();
        waiting.now = waiting.now.saturating_add(1);
        let now = waiting.now;
        if let Some(about) = about
            && let Some(before) = waiting.times.insert(about, now)
        {
            waiting.feeds.remove(&before);
        }
        waiting.feeds.insert(now, feed);
        drop(waiting);
        self.0.told.notify_one();
    }
}

impl Heard {
    /// All events since the last call, in the order in which they were sent. May be empty.
    pub fn take(&mut self) -> Vec<Feed> {
        let mut waiting = self.0.waiting.lock();
        let times = std::mem::take(&mut waiting.times);
        let feeds = std::mem::take(&mut waiting.feeds);
        drop(waiting);
        drop(times);
        feeds.into_values().collect()
    }

    /// Waits for events, and returns all of them. Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Vec<Feed> {
        loop {
            let feeds = self.take();
            if !feeds.is_empty() {
                return feeds;
            }
            self.0.told.notified().await;
        }
    }
}

#[cfg(test)]
mod tests;
