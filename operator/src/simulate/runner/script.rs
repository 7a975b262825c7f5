//! What happens from outside, and when.

use std::sync::Arc;
use std::time::Duration;

use trellis_policies::quota::{LimitId, QuotaPolicies};
use trellis_scheduler::{
    Flavor, FlavorName, Gang, GangId, Node, NodeName, PodKey, Queue, QueueName, Resources, Time,
    Topology, TopologyName,
};

use super::expect::Expect;

/// Everything that happens from outside, in order of time; what happens at one
/// time, in the order in which it was added.
#[derive(Clone, Debug, Default)]
pub struct Script {
    changes: Vec<(Time, Change)>,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Change {
    /// A node is new or changed.
    Node(Node),
    /// A node is gone. What ran there starts again elsewhere.
    NodeGone(NodeName),
    /// A queue is new or changed.
    Queue(Queue),
    /// A queue is gone.
    QueueGone(QueueName),
    /// A flavor is new or changed.
    Flavor(Flavor),
    /// A flavor is gone.
    FlavorGone(FlavorName),
    /// A topology is new or changed.
    Topology(Topology),
    /// A topology is gone.
    TopologyGone(TopologyName),
    /// These quota policies take effect; of those from before none does.
    Quotas(Arc<QuotaPolicies>),
    /// Somebody else's pod holds so much of a node.
    Pod(PodKey, NodeName, Resources),
    /// It holds nothing any more.
    PodGone(PodKey),
    /// A job is submitted, or changed while it waits.
    Job(Box<Job>),
    /// A job is there that cannot be queued.
    Held(Held),
    /// A job is deleted.
    JobGone(GangId),
    /// What must be so by now.
    Expect(Expect),
}

/// A job and what becomes of it.
#[derive(Clone, Debug)]
pub struct Job {
    /// The gang. Its `runtime` is what the job itself says.
    pub gang: Gang,
    /// How long it really runs once it has its place. None: for ever.
    pub runtime: Option<Duration>,
    /// It is ended after so long.
    pub limit: Option<Duration>,
    /// What its runs are predicted by: that of other jobs whose runs are alike.
    pub runs_as: String,
    /// Limits of GPU-hours that it draws on.
    pub hours: Vec<LimitId>,
}

impl Job {
    /// How long it holds a place that it gets, if nothing comes between. None: for ever.
    #[must_use]
    pub fn holds_for(&self) -> Option<Duration> {
        earlier(self.runtime, self.limit)
    }
}

/// The earlier of two ends.
pub(super) fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A job that the engine is not told of.
#[derive(Clone, Debug)]
pub struct Held {
    /// The job.
    pub id: GangId,
    /// It never will be as it is. Else: until what it needs is there.
    pub refused: bool,
    /// Why.
    pub reason: String,
}

impl Script {
    /// Nothing happens.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds something that happens at a time.
    pub fn at(&mut self, time: Time, change: Change) {
        self.changes.push((time, change));
    }

    /// All of it, in order.
    pub(in crate::simulate) fn into_order(mut self) -> Vec<(Time, Change)> {
        self.changes.sort_by_key(|(time, _)| *time);
        self.changes
    }
}
