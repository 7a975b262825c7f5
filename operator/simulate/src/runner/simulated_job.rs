//! A job as the simulation knows it.

use std::collections::BTreeMap;
use std::time::Duration;

use trellis_api::job::Restart;
use trellis_scheduler::{Gang, NodeName, Placement, PodKey, Time};

use super::measures::gpu_use_meter;
use super::script::earlier_end;
use super::surplus_pods::state::SimulatedSurplus;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimulatedJobStage {
    /// The engine does not get the job until the objects that it refers to exist.
    Withheld,
    /// The engine does not get the job until the job changes.
    Refused,
    Waiting,
    Placed {
        since: Time,
    },
    /// Its pods are stopping; the job will be pending again.
    Leaving,
    Ended,
}

/// State of a pod of a placed gang that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoppedPod {
    /// The pod restarts on its node.
    Restarting,
    /// The pod has ended and released its resources.
    Done,
}

/// A job as the simulation knows it.
#[derive(Debug)]
pub(super) struct SimulatedJob {
    /// The gang in the engine's form.
    pub(super) gang: Gang,
    /// GPUs of the whole gang.
    pub(super) gpus: i64,
    pub(super) runtime: Option<Duration>,
    pub(super) limit: Option<Duration>,
    pub(super) prediction_key: String,
    /// True if the job has the predicted runtime of its queue.
    pub(super) uses_queue_prediction: bool,
    pub(super) stage: SimulatedJobStage,
    /// Incremented to cancel the job's scheduled events.
    pub(super) event_generation: u32,
    pub(super) gpus_by_node: Vec<(NodeName, i64)>,
    pub(super) has_started: bool,
    pub(super) was_preempted: bool,
    pub(super) surplus: SimulatedSurplus,
    pub(super) restart: Restart,
    /// Pods of the placed gang that do not run.
    pub(super) stopped_pods: BTreeMap<PodKey, StoppedPod>,
    /// Restarts that count against `restart.limit`.
    pub(super) failures: u32,
    /// Restarts that count against `restart.disruptionLimit`.
    pub(super) disruptions: u32,
}

impl SimulatedJob {
    /// Returns how long the job keeps its nodes if it is not preempted. None: it never ends.
    pub(super) fn place_duration(&self) -> Option<Duration> {
        earlier_end(self.runtime, self.limit)
    }

    /// Returns true if the job completes before its limit. A job with only a limit completes when
    /// it reaches the limit.
    pub(super) fn completes_before_limit(&self) -> bool {
        match (self.runtime, self.limit) {
            (Some(runtime), Some(limit)) => runtime <= limit,
            _ => true,
        }
    }

    /// Returns true if all pods of the job must be in one domain of the level.
    pub(super) fn needs_one_domain(&self, level: &str) -> bool {
        let topology = self.gang.topology.as_ref();
        topology.is_some_and(|topology| topology.required_level() == Some(level))
    }

    /// Returns the time of placement.
    pub(super) fn placed_at(&self) -> Option<Time> {
        match self.stage {
            SimulatedJobStage::Placed { since } => Some(since),
            _ => None,
        }
    }

    /// Returns the time since placement.
    pub(super) fn running_time(&self, now: Time) -> Duration {
        self.placed_at()
            .map_or(Duration::ZERO, |since| now.since(since))
    }
}

/// Returns the number of GPUs of a gang.
pub(super) fn gang_gpus(gang: &Gang) -> i64 {
    let all = gang.groups.iter().map(|group| {
        let count = i64::from(group.count);
        gpu_use_meter::count_gpus(&group.request).saturating_mul(count)
    });
    all.fold(0, i64::saturating_add)
}

/// Returns the GPUs of one pod of a gang with one task group.
pub(super) fn pod_gpus(gang: &Gang) -> i64 {
    let first = gang.groups.first();
    first.map_or(0, |group| gpu_use_meter::count_gpus(&group.request))
}

/// Returns the GPUs of a placement by node.
pub(super) fn placement_gpus(gang: &Gang, placement: &Placement) -> Vec<(NodeName, i64)> {
    let groups = gang.groups.iter().flat_map(|group| {
        let each = gpu_use_meter::count_gpus(&group.request);
        let runs = placement.runs_of(group);
        runs.map(move |(node, pods)| (node.clone(), each.saturating_mul(i64::from(pods))))
    });
    groups.collect()
}
