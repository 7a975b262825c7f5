//! Events of the scheduler, and the channel that carries them.
//!
//! A later event about an object replaces a pending one. So the number of objects bounds the queue,
//! even if the scheduler is busy or many events arrive. There is no back-pressure: a watch that
//! waited for the scheduler would fall behind the API server's history, and the scheduler's own
//! tasks report their results here.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use trellis_gang::key::Key;
use trellis_gang::observed::{AntiAffinityTerm, SlimPod};
use trellis_gang::quota::{JobLimits, LimitsReport};
use trellis_gang::requirements::pod_usage::PodUsage;
use trellis_gang::{CompletedRun, DesiredGang};
use trellis_scheduler::{QueueName, Resources, Snapshot};

use super::{QueueReport, TotalsReport};
use crate::planned_gang::{PlannedAttempt, PlannedGang};
use crate::task_outcome::TaskOutcome;

/// An event of the scheduler.
#[derive(Debug)]
pub enum SchedulerEvent {
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
    PodSucceeded(Key),
    /// The anti-affinity of a foreign pod keeps pods out of other domains than before.
    Repulsion(Arc<AntiAffinityTerm>),
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
    Recheck(Key),
    /// Limits that a job draws on.
    Limits(Key, Arc<JobLimits>),
    /// Wish of the controller for a gang. None: the job is gone.
    DesiredGang(Key, Option<DesiredGang>),
    /// A job is complete. The event may be sent several times.
    RunCompleted(CompletedRun),
    /// The controller has looked at a job, but could not decide on a wish.
    Undecided(Key),
    /// Requests the usage of all queues.
    AskQueues(oneshot::Sender<BTreeMap<QueueName, QueueReport>>),
    /// Requests the totals of the cluster.
    AskTotals(oneshot::Sender<TotalsReport>),
    /// Requests the usage of the limits of QuotaPolicies.
    AskLimits(oneshot::Sender<LimitsReport>),
    /// Requests a snapshot of the engine.
    AskSnapshot(oneshot::Sender<Arc<Snapshot>>),
    /// Requests the gangs of attempts that are not submitted, in the same order.
    AskGangs(Vec<PlannedAttempt>, oneshot::Sender<Vec<PlannedGang>>),
    /// A task has written conditions of an external gang's pods: its number, and the uids of pods
    /// whose write failed.
    ConditionsWritten(Key, u64, Vec<String>),
    /// A task has ended.
    TaskEnded(Key, TaskOutcome),
}

impl SchedulerEvent {
    /// Returns the event by which the engine learns of a pod on its node.
    #[must_use]
    pub fn for_pod(key: Key, pod: &SlimPod) -> Self {
        match PodUsage::of(pod) {
            PodUsage::Done => Self::PodSucceeded(key),
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
enum EventSubject {
    Node(Arc<str>),
    Pod(Key),
    /// The term in words.
    Repulsion(String),
    DeviceClass,
    Queue(Arc<str>),
    Flavor(Arc<str>),
    Topology(Arc<str>),
    NamespaceQuota(Arc<str>),
    Recheck(Key),
    Undecided(Key),
    Limits(Key),
    DesiredGang(Key),
    /// Differs from the subject of a wish, so that the wish for the next job with this name does
    /// not replace the deletion.
    JobGone(Key),
}

impl SchedulerEvent {
    /// Returns the subject of the event. None: the event is never replaced. There are few of these
    /// events: completed jobs, results of the one task of each gang, and queries.
    fn subject(&self) -> Option<EventSubject> {
        Some(match self {
            Self::Node(name) => EventSubject::Node(name.clone()),
            Self::Pod { pod, .. } | Self::PodGone(pod) | Self::PodSucceeded(pod) => {
                EventSubject::Pod(pod.clone())
            }
            Self::Repulsion(repulsion) => EventSubject::Repulsion(repulsion.to_text()),
            Self::DeviceClass => EventSubject::DeviceClass,
            Self::Queue(name) => EventSubject::Queue(name.clone()),
            Self::Flavor(name) => EventSubject::Flavor(name.clone()),
            Self::Topology(name) => EventSubject::Topology(name.clone()),
            Self::NamespaceQuota(namespace) => EventSubject::NamespaceQuota(namespace.clone()),
            Self::Recheck(job) => EventSubject::Recheck(job.clone()),
            Self::Undecided(job) => EventSubject::Undecided(job.clone()),
            Self::Limits(job, _) => EventSubject::Limits(job.clone()),
            Self::DesiredGang(job, Some(_)) => EventSubject::DesiredGang(job.clone()),
            Self::DesiredGang(job, None) => EventSubject::JobGone(job.clone()),
            Self::RunCompleted(_)
            | Self::AskQueues(_)
            | Self::AskTotals(_)
            | Self::AskLimits(_)
            | Self::AskSnapshot(_)
            | Self::AskGangs(..)
            | Self::ConditionsWritten(..)
            | Self::TaskEnded(..) => return None,
        })
    }
}

/// Events that the scheduler has not taken yet.
#[derive(Debug, Default)]
struct PendingEvents {
    /// Events in the order of sending. If a node shrinks and then a pod releases resources, the
    /// scheduler must not see the two in reverse order.
    events: BTreeMap<u64, SchedulerEvent>,
    latest_by_subject: HashMap<EventSubject, u64>,
    last_sequence: u64,
    /// True once the receiver is gone.
    is_closed: bool,
}

#[derive(Debug, Default)]
struct SharedEvents {
    pending: Mutex<PendingEvents>,
    event_sent: Notify,
}

/// The sender of the channel.
#[derive(Clone, Debug)]
pub struct EventSender(Arc<SharedEvents>);

/// The receiver of the channel.
#[derive(Debug)]
pub struct EventReceiver(Arc<SharedEvents>);

/// Creates a channel to the scheduler.
#[must_use]
pub fn event_channel() -> (EventSender, EventReceiver) {
    let shared = Arc::<SharedEvents>::default();
    (EventSender(shared.clone()), EventReceiver(shared))
}

impl EventSender {
    /// Sends an event. Never waits. Without a receiver, the event is dropped, so that a caller does not
    /// wait for an answer.
    pub fn send(&self, feed: SchedulerEvent) {
        let about = feed.subject();
        let mut waiting = self.0.pending.lock();
        if waiting.is_closed {
            return;
        }
        waiting.last_sequence = waiting.last_sequence.saturating_add(1);
        let now = waiting.last_sequence;
        if let Some(about) = about
            && let Some(before) = waiting.latest_by_subject.insert(about, now)
        {
            waiting.events.remove(&before);
        }
        waiting.events.insert(now, feed);
        drop(waiting);
        self.0.event_sent.notify_one();
    }
}

impl Drop for EventReceiver {
    /// Ends the waits for the answers to pending requests.
    fn drop(&mut self) {
        self.0.pending.lock().is_closed = true;
        drop(self.take_all());
    }
}

impl EventReceiver {
    /// Returns all events since the last call, in the order in which they were sent. May be empty.
    pub(crate) fn take_all(&mut self) -> Vec<SchedulerEvent> {
        let mut waiting = self.0.pending.lock();
        let times = std::mem::take(&mut waiting.latest_by_subject);
        let feeds = std::mem::take(&mut waiting.events);
        drop(waiting);
        drop(times);
        feeds.into_values().collect()
    }

    /// Waits for events, and returns all of them. Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Vec<SchedulerEvent> {
        loop {
            let feeds = self.take_all();
            if !feeds.is_empty() {
                return feeds;
            }
            self.0.event_sent.notified().await;
        }
    }
}

#[cfg(test)]
mod tests;
