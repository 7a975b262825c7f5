//! Changes that a simulation applies, by time.

use std::sync::Arc;
use std::time::Duration;

use trellis_api::job::Restart;
use trellis_policies::quota::{LimitId, QuotaPolicies};
use trellis_scheduler::{
    Flavor, FlavorName, Gang, GangId, Node, NodeName, PodKey, Queue, QueueName, Resources, Time,
    Topology, TopologyName,
};

use super::expectations::Expectations;

/// All changes that a simulation applies, by time, then in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct SimulationScript {
    changes: Vec<(Time, ScriptChange)>,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum ScriptChange {
    /// A node is new or changed.
    Node(Node),
    /// A node is gone. Gangs that ran there restart elsewhere.
    NodeDeleted(NodeName),
    /// A queue is new or changed.
    Queue(Queue),
    /// A queue is gone.
    QueueDeleted(QueueName),
    /// A flavor is new or changed.
    Flavor(Flavor),
    /// A flavor is gone.
    FlavorDeleted(FlavorName),
    /// A topology is new or changed.
    Topology(Topology),
    /// A topology is gone.
    TopologyDeleted(TopologyName),
    /// These quota policies replace the previous ones.
    Quotas(Arc<QuotaPolicies>),
    /// An external pod requests these resources of a node.
    ExternalPod(PodKey, NodeName, Resources),
    /// An external pod is gone.
    ExternalPodDeleted(PodKey),
    /// A job is submitted, or changed while it waits.
    Job(Box<ScriptJob>),
    /// A job exists that cannot be queued.
    JobWithheld(WithheldJob),
    /// A job is deleted.
    JobDeleted(GangId),
    /// A pod of a job fails, leaves or finishes.
    JobPod(ScriptPodEvent),
    /// Expectations that must hold at this time.
    Expect(Expectations),
}

/// A job and its outcome.
#[derive(Clone, Debug)]
pub struct ScriptJob {
    /// The gang. Its `runtime` is the one that the job declares.
    pub gang: Gang,
    /// Real runtime once the job is placed. None: for ever.
    pub runtime: Option<Duration>,
    /// Time after which the job is ended.
    pub limit: Option<Duration>,
    /// Key by which runtimes are predicted; similar jobs share it.
    pub prediction_key: String,
    /// Limits on GPU-hours that the job counts against.
    pub gpu_hour_limits: Vec<LimitId>,
    /// The job's surplus pods, by group and index.
    pub surplus: Vec<ScriptSurplusPod>,
    /// How the job reacts to failures of its pods.
    pub restart: Restart,
}

/// A pod beyond the gang of its job.
#[derive(Clone, Debug)]
pub struct ScriptSurplusPod {
    /// The pod as a gang.
    pub gang: Gang,
    /// It is of an elastic group; else of one with `membership: BestEffort`.
    pub is_elastic: bool,
    /// The domain of its gang that it must be in.
    pub level: Option<RequiredLevel>,
}

/// A level of which all pods must be in one domain.
#[derive(Clone, Debug)]
pub struct RequiredLevel {
    /// Its name.
    pub name: String,
    /// The task group asks for it, else the job.
    pub is_of_group: bool,
}

/// An event of one pod of a job.
#[derive(Clone, Debug)]
pub struct ScriptPodEvent {
    /// The job.
    pub job: GangId,
    /// Name of the pod.
    pub pod: String,
    /// The pod's task group.
    pub group: String,
    /// The pod's index in the group.
    pub index: u32,
    /// The pod's rank. None: it has none in the job.
    pub rank: Option<u32>,
    /// True if the pod's group is elastic.
    pub is_elastic: bool,
    /// The event.
    pub change: PodChange,
}

/// The change of a pod by an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodChange {
    /// The container fails.
    Fails {
        /// Exit code. None: 1.
        exit_code: Option<i32>,
        /// The kubelet's word for it. None: `Error`.
        reason: Option<String>,
    },
    /// The pod is evicted or deleted.
    Leaves,
    /// The pod has done its work.
    Finishes,
}

impl PodChange {
    /// `fail`.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Fails { .. } => "fail",
            Self::Leaves => "leave",
            Self::Finishes => "finish",
        }
    }

    /// `failed with exit code 1`.
    pub(super) fn past_text(&self) -> String {
        match self {
            Self::Fails { exit_code, reason } => {
                let code = exit_code.unwrap_or(1);
                let reason = reason.as_ref().map(|word| format!(" ({word})"));
                format!("failed with exit code {code}{}", reason.unwrap_or_default())
            }
            Self::Leaves => "was evicted or deleted".to_owned(),
            Self::Finishes => "has finished".to_owned(),
        }
    }
}

impl ScriptJob {
    /// Time that the job keeps its place if it is not preempted. None: for ever.
    #[must_use]
    pub fn place_duration(&self) -> Option<Duration> {
        earlier_end(self.runtime, self.limit)
    }
}

/// The earlier of two ends.
pub(super) fn earlier_end(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A job that is held back from the engine.
#[derive(Clone, Debug)]
pub struct WithheldJob {
    /// The job.
    pub id: GangId,
    /// True if the job must change first. False: it waits for other objects.
    pub refused: bool,
    /// Reason.
    pub reason: String,
}

impl SimulationScript {
    /// Nothing happens.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds something that happens at a time.
    pub fn add(&mut self, time: Time, change: ScriptChange) {
        self.changes.push((time, change));
    }

    /// All changes, by time.
    pub(crate) fn into_changes(mut self) -> Vec<(Time, ScriptChange)> {
        self.changes.sort_by_key(|(time, _)| *time);
        self.changes
    }
}
