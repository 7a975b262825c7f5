//! Changes that a simulation applies, by time.

pub(super) mod changes;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use trellis_api::job::Restart;
use trellis_policies::quota::{LimitId, QuotaPolicies};
use trellis_scheduler::{
    Flavor, FlavorName, Gang, GangId, Node, NodeName, PodKey, Queue, QueueName, Resources, Time,
    Topology, TopologyName,
};

use super::autoscaler::AutoscalerSettings;
use super::expectations::Expectations;

/// All changes that a simulation applies, by time, then in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct SimulationScript {
    changes: Vec<(Time, ScriptChange)>,
}

/// One change.
#[derive(Clone, Debug)]
pub enum ScriptChange {
    /// Creates or changes a node.
    Node(Node),
    /// Deletes a node. Its gangs restart on other nodes.
    NodeDeleted(NodeName),
    /// Creates or changes a queue.
    Queue(Queue),
    /// Deletes a queue.
    QueueDeleted(QueueName),
    /// Creates or changes a flavor.
    Flavor(Flavor),
    /// Deletes a flavor.
    FlavorDeleted(FlavorName),
    /// Sets how the simulated autoscaler adds and removes the nodes of a flavor.
    Autoscaler(FlavorName, AutoscalerSettings),
    /// Creates or changes a topology.
    Topology(Topology),
    /// Deletes a topology.
    TopologyDeleted(TopologyName),
    /// Replaces all quota policies.
    Quotas(Arc<QuotaPolicies>),
    /// Creates or changes an external pod, with its node and the resources that it holds.
    ExternalPod(PodKey, NodeName, Resources),
    /// Deletes an external pod.
    ExternalPodDeleted(PodKey),
    /// Submits a job, or changes a pending job.
    Job(Box<ScriptJob>),
    /// Creates a job that cannot be queued.
    JobWithheld(WithheldJob),
    /// Deletes a job.
    JobDeleted(GangId),
    /// Changes a pod of a job: it fails, leaves or finishes.
    JobPod(ScriptPodEvent),
    /// Expectations that must hold at this time.
    Expect(Expectations),
}

/// A job and its outcome.
#[derive(Clone, Debug)]
pub struct ScriptJob {
    /// The gang. Its `runtime` is the one that the job declares.
    pub gang: Gang,
    /// Real runtime of the placed job. None: the job never ends.
    pub runtime: Option<Duration>,
    /// Time after which the deadline ends the job.
    pub limit: Option<Duration>,
    /// Key by which runtimes are predicted; similar jobs share it.
    pub prediction_key: String,
    /// Limits on GPU-hours that the job counts against.
    pub gpu_hour_limits: Vec<LimitId>,
    /// The job's surplus pods, by group and index.
    pub surplus: Vec<ScriptSurplusUnit>,
    /// How the job reacts to failures of its pods.
    pub restart: Restart,
}

/// A pod beyond the gang of its job, or a slice beyond it.
#[derive(Clone, Debug)]
pub struct ScriptSurplusUnit {
    /// The pod, or the slice, as a gang.
    pub gang: Gang,
    /// True if the pod belongs to an elastic group. False: its group has `membership: BestEffort`.
    pub is_elastic: bool,
    /// True if the other pods of its job restart when it joins, so that the job grows slowly.
    pub restarts_others: bool,
    /// The level at which the pod must be in the same domain as its gang.
    pub level: Option<RequiredLevel>,
}

/// A topology level at which all pods must be in one domain.
#[derive(Clone, Debug)]
pub struct RequiredLevel {
    /// Its name.
    pub name: String,
    /// True if the task group requires the level. False: the job requires it.
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
    /// The pods of the pod's slice, of the first layer. None: its group is not split.
    pub slice: Option<Range<u32>>,
    /// The pod's rank. None: the pod has no rank.
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
        /// The kubelet's reason. None: `Error`.
        reason: Option<String>,
    },
    /// The pod is evicted or deleted.
    Leaves,
    /// The pod has done its work.
    Finishes,
}

impl PodChange {
    /// Returns the word for the output, such as `fail`.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Fails { .. } => "fail",
            Self::Leaves => "leave",
            Self::Finishes => "finish",
        }
    }

    /// Describes the past event, such as `failed with exit code 1`.
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
    /// Returns how long the job keeps its nodes if it is not preempted. None: it never ends.
    #[must_use]
    pub(crate) fn place_duration(&self) -> Option<Duration> {
        earlier_end(self.runtime, self.limit)
    }
}

/// Returns the earlier of two ends.
pub(super) fn earlier_end(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A job that the engine does not get.
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
    /// Creates a script without changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a change at a time.
    pub fn add(&mut self, time: Time, change: ScriptChange) {
        self.changes.push((time, change));
    }

    /// Returns all changes, sorted by time.
    pub(crate) fn into_changes(mut self) -> Vec<(Time, ScriptChange)> {
        self.changes.sort_by_key(|(time, _)| *time);
        self.changes
    }
}
