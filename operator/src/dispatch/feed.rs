//! What the scheduler hears, and the way to it.
//!
//! News of one object that is not heard yet is replaced by later news of it, so
//! what waits is bounded by the objects that there are, however long the
//! scheduler is busy and whatever storms come in. There is no back-pressure: a
//! watch that waited for the scheduler would fall behind what the API server
//! remembers, and the scheduler's own tasks tell it how they ended.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use trellis_scheduler::{QueueName, Resources, Snapshot};

use super::commit::Outcome;
use super::{QueueReport, TotalsReport};
use crate::gang::Wish;
use crate::gang::key::Key;
use crate::gang::observed;
use crate::gang::observed::{PodPhase, Repulsion, SlimPod};
use crate::gang::quota::{JobLimits, LimitsReport};
use crate::gang::request;

/// What the scheduler hears.
#[derive(Debug)]
pub enum Feed {
    /// A node is new, changed or gone.
    Node(Arc<str>),
    /// A pod holds something of a node.
    Pod {
        /// The pod.
        pod: Key,
        /// Its uid.
        uid: Box<str>,
        /// The node.
        node: Arc<str>,
        /// What it holds.
        request: Resources,
        /// It is being deleted, and to be gone by then.
        leaves: Option<Timestamp>,
    },
    /// A pod is gone, or has failed. Of a gang that has its place its own is kept: it may
    /// come again.
    PodGone(Key),
    /// A pod has succeeded: it holds nothing any more.
    PodDone(Key),
    /// Anti-affinity of a pod that is not ours keeps pods out of more or less.
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
    /// Something about a job changed.
    Look(Key),
    /// The limits that a job draws on.
    Limits(Key, Arc<JobLimits>),
    /// What the controller wants of a gang. None: the job is gone.
    Wish(Key, Option<Wish>),
    /// The controller has looked at a job, and cannot say what it wants of it.
    Unsaid(Key),
    /// Someone asks how queues stand.
    AskQueues(oneshot::Sender<BTreeMap<QueueName, QueueReport>>),
    /// Someone asks what there is.
    AskTotals(oneshot::Sender<TotalsReport>),
    /// Someone asks how the limits of QuotaPolicies stand.
    AskLimits(oneshot::Sender<LimitsReport>),
    /// Someone asks for all that the engine knows.
    AskSnapshot(oneshot::Sender<Arc<Snapshot>>),
    /// Pods of an external gang have been told why they wait, the time with this number, but for
    /// these, by uid: that could not be written.
    Told(Key, u64, Vec<String>),
    /// A task has ended.
    Ended(Key, Outcome),
}

impl Feed {
    /// What a pod means for its node.
    #[must_use]
    pub fn pod(key: Key, pod: &SlimPod) -> Self {
        // As the lifecycle has it: of a pod that succeeds a container may have failed.
        let phase = observed::phase(pod);
        match &pod.spec.node_name {
            _ if phase == PodPhase::Succeeded => Self::PodDone(key),
            Some(node) if !phase.is_over() => Self::Pod {
                uid: pod.metadata.uid.as_deref().unwrap_or_default().into(),
                node: node.as_str().into(),
                request: request::of_pod(pod),
                leaves: pod.metadata.deletion_timestamp.as_ref().map(|by| by.0),
                pod: key,
            },
            _ => Self::PodGone(key),
        }
    }
}

/// What news are about.
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
    /// Apart from wishes: that a job is gone is not undone by the wish of the
    /// next one of its name.
    JobGone(Key),
}

impl Feed {
    /// None: each is heard. There is one task a gang, one that tells its pods, and few who ask.
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

/// What was told and is not heard yet.
#[derive(Debug, Default)]
struct Waiting {
    /// By the time at which it was last told: who is told first that a node has
    /// less room and then that a pod holds less must not hear it the other way round.
    feeds: BTreeMap<u64, Feed>,
    times: HashMap<About, u64>,
    now: u64,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    told: Notify,
}

/// The end at which is told.
#[derive(Clone, Debug)]
pub struct Tell(Arc<Shared>);

/// The end at which is heard.
#[derive(Debug)]
pub struct Heard(Arc<Shared>);

/// A way to the scheduler.
#[must_use]
pub fn channel() -> (Tell, Heard) {
    let shared = Arc::<Shared>::default();
    (Tell(shared.clone()), Heard(shared))
}

impl Tell {
    /// Tells. Never waits.
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
    /// All that was told since the last time, in that order. Perhaps nothing.
    pub fn take(&mut self) -> Vec<Feed> {
        let mut waiting = self.0.waiting.lock();
        let times = std::mem::take(&mut waiting.times);
        let feeds = std::mem::take(&mut waiting.feeds);
        drop(waiting);
        drop(times);
        feeds.into_values().collect()
    }

    /// Waits until something is told, and gives all of it. Nothing is lost if
    /// this is given up.
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
