//! A script: the cluster, what its users do, and the faults. A seed makes a script, and a script can
//! be stored, shortened and run again.

mod autoscaler;
mod coincidences;
mod elastic;
mod from_seed;
mod incidents;
mod writes;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::VirtualTime;

pub use autoscaler::AutoscalerScript;
pub use elastic::ElasticScript;
pub use writes::{WriteChoice, WriteKind};

/// Everything about a run that is decided before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// The source of the random numbers that are drawn during the run.
    pub seed: u64,
    /// GPUs of each node.
    pub nodes: Vec<u32>,
    /// Number of nodes of each rack. Racks take nodes in their order. 0: no racks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rack_nodes: usize,
    /// Number of replicas of the operator.
    pub replicas: usize,
    /// Duration of the Lease in seconds.
    pub lease_seconds: u64,
    /// The admission policy `trellis-leader` is not installed. Writes of an earlier leader then pass
    /// until their objects have changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_leader_policy: bool,
    /// The autoscaler that adds nodes. None: no nodes are ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<AutoscalerScript>,
    /// The queues: one, or two below one parent.
    pub queues: Vec<QueueScript>,
    /// Delays of the network.
    pub network: NetworkDelays,
    /// Behaviour of the kubelets.
    pub kubelets: KubeletDelays,
    /// The jobs that users submit.
    pub jobs: Vec<JobScript>,
    /// Further acts of users.
    pub acts: Vec<ActScript>,
    /// The faults.
    pub faults: Vec<FaultScript>,
    /// Second from which no user acts.
    pub calm_from: u64,
}

impl Script {
    /// Returns the time for which the jobs run if they run one after another, and each is preempted
    /// once.
    pub(crate) fn work_time(&self) -> Duration {
        let seconds = self.jobs.iter().map(|job| {
            let longest = job.run_seconds.iter().max().copied().unwrap_or_default();
            longest * (job.failures as u64 + 2)
        });
        Duration::from_secs(seconds.sum())
    }
}

/// A queue without queues below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueScript {
    /// GPUs of its quota. None: it has no quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Its jobs may preempt jobs of lower priority, and take back quota from the other queue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preempts: bool,
}

/// Longest delays in milliseconds. Most delays are far shorter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkDelays {
    /// Longest delay of a request or an answer.
    pub request: u64,
    /// Longest delay of an event of a watch.
    pub watch: u64,
}

/// Longest delays in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletDelays {
    /// From the binding of a pod to its start.
    pub start: u64,
    /// From the deletion of a pod to its end. A kubelet kills a pod after its grace period.
    pub stop: u64,
    /// Delay of the garbage collector.
    pub collect: u64,
}

/// A job of one task group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobScript {
    /// Name of the job.
    pub name: String,
    /// Number of its queue, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queue: usize,
    /// Its priority.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
    /// Second at which it is submitted.
    pub at: u64,
    /// Number of pods.
    pub replicas: u32,
    /// How the job grows. None: its pods start together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<ElasticScript>,
    /// GPUs of each pod.
    pub gpus: u32,
    /// Seconds for which its pods run in each attempt. The last entry counts for all later ones.
    pub run_seconds: Vec<u64>,
    /// Number of attempts that fail.
    pub failures: usize,
    /// Seconds of the grace period of its pods.
    pub grace_seconds: u64,
    /// Seconds after its placement in which it cannot be preempted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_runtime_seconds: u64,
}

impl JobScript {
    /// Returns the number of pods that start together.
    pub(crate) fn gang_size(&self) -> u32 {
        let elastic = self.elastic.as_ref();
        elastic.map_or(self.replicas, |elastic| elastic.min_replicas)
    }

    /// Returns the number of pods that start together in one rack: those of a slice, or 1.
    pub(crate) fn slice_pods(&self) -> u32 {
        let elastic = self.elastic.as_ref();
        elastic.and_then(|elastic| elastic.slice_pods).unwrap_or(1)
    }
}

/// The priority of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Priority {
    /// Above normal.
    High,
    /// The priority of a job that names no PriorityClass.
    #[default]
    Normal,
}

impl Priority {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_normal(&self) -> bool {
        *self == Self::Normal
    }
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// An act of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActScript {
    /// Second at which it happens, or from which it waits for a write.
    pub at: u64,
    /// The write after which it happens. It never happens if that write is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<AfterWrite>,
    /// The act.
    pub act: Act,
}

impl ActScript {
    /// Returns an act that happens some milliseconds after a write, counted from second `at`. Without
    /// a write, it happens these milliseconds, in whole seconds, after `at`.
    pub(crate) fn new(at: u64, write: Option<WriteChoice>, millis: u64, act: Act) -> Self {
        match write {
            Some(write) => Self {
                at,
                after: Some(AfterWrite { write, millis }),
                act,
            },
            None => Self {
                at: at + millis / 1000,
                after: None,
                act,
            },
        }
    }
}

/// A time after a write of the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AfterWrite {
    /// The write, counted from the second of the act.
    pub write: WriteChoice,
    /// Milliseconds since a replica has sent it.
    pub millis: u64,
}

/// An act of a user, with the name of the job or the number of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// Deletes a job.
    Delete(String),
    /// Suspends a job.
    Suspend(String),
    /// Lets a suspended job go on.
    Resume(String),
    /// Submits a job again, if its name is free.
    Submit(String),
    /// Deletes one of the pods of a job.
    DeletePod(String),
    /// Kills the process of a running pod of a job: the pod whose place in the list is this number
    /// modulo the number of running pods.
    KillProcess(String, usize),
    /// Sets the number of pods of a job.
    SetReplicas(String, u32),
    /// Deletes a pod that asks an autoscaler for a node.
    DeletePlaceholder,
    /// Deletes the PodGroup of a job.
    DeletePodGroup(String),
    /// Marks the node with this number as unschedulable.
    Cordon(usize),
    /// Lets pods onto the node again.
    Uncordon(usize),
    /// Marks the node with this number as broken. Its gangs leave.
    Quarantine(usize),
    /// Takes the mark from the node.
    Release(usize),
    /// Sets the quota of the queue with this number, in GPUs. A queue without quota stays so.
    SetQuota(usize, u32),
    /// Adds a queue that no job uses.
    AddQueue,
}

/// A fault that lasts for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultScript {
    /// Millisecond at which it begins.
    pub at: u64,
    /// Seconds for which it lasts.
    pub seconds: u64,
    /// The fault.
    pub fault: Fault,
}

impl FaultScript {
    /// Returns true if the fault is there at a time.
    pub(crate) fn is_active(&self, now: VirtualTime) -> bool {
        (self.begin()..self.end()).contains(&now)
    }

    /// Returns the replica that has the fault.
    pub(crate) fn replica(&self) -> Option<usize> {
        match self.fault {
            Fault::Crash(replica)
            | Fault::Stop(replica)
            | Fault::Pause(replica)
            | Fault::LoseLease(replica)
            | Fault::SetClock(replica, _) => Some(replica),
            _ => None,
        }
    }

    pub(crate) fn begin(&self) -> VirtualTime {
        VirtualTime(self.at)
    }

    pub(crate) fn end(&self) -> VirtualTime {
        self.begin() + Duration::from_secs(self.seconds)
    }
}

/// A fault of the network, of a process or of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// Requests do not reach the API server. Per mille of all requests.
    LoseRequests(u64),
    /// The API server handles requests, and their answers are lost. Per mille of all requests.
    LoseAnswers(u64),
    /// Requests and answers take up to this many milliseconds.
    Slow(u64),
    /// The API server answers 503. Per mille of all requests.
    Unavailable(u64),
    /// Watches of the kind with this plural name show nothing until the end.
    StallWatches(String),
    /// The revisions so far are compacted, and all watches are cut.
    Compact,
    /// The process of a replica is killed, and starts again at the end.
    Crash(usize),
    /// The process of a replica stands still, and its clocks go on.
    Stop(usize),
    /// The machine of a replica stands still with all its clocks.
    Pause(usize),
    /// Requests of a replica for the Lease do not reach the API server. All its other requests do.
    LoseLease(usize),
    /// The wall clock of a replica's machine is set forward by these seconds, or back if negative.
    SetClock(usize, i64),
    /// The node with this number does not answer, and its kubelet does nothing.
    LoseNode(usize),
    /// A single write meets a fault. Writes are counted from the begin of the fault.
    OnWrite(WriteChoice, WriteFault),
}

/// The fault of a single write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteFault {
    /// It reaches the API server after this many milliseconds.
    Delay(u64),
    /// An admission webhook denies it.
    Deny,
    /// It does not reach the API server.
    LoseRequest,
    /// The API server handles it, and its answer is lost.
    LoseAnswer,
    /// The process that sends it is killed before it has sent it, and starts again at the end.
    CrashBefore,
    /// The process that sends it is killed when it has sent it, and starts again at the end.
    CrashAfter,
    /// From this write on, watches of the kind with this plural name show nothing until the end.
    StallWatches(String),
}

impl Fault {
    /// Returns true if the fault meets single requests.
    pub(crate) fn is_of_requests(&self) -> bool {
        matches!(
            self,
            Self::LoseRequests(_)
                | Self::LoseAnswers(_)
                | Self::Unavailable(_)
                | Self::LoseLease(_)
                | Self::OnWrite(..)
        )
    }

    /// Returns the name of the kind of fault.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::LoseRequests(_) => "lost request",
            Self::LoseAnswers(_) => "lost answer",
            Self::Slow(_) => "slow network",
            Self::Unavailable(_) => "refused request",
            Self::StallWatches(_) => "stalled watch",
            Self::Compact => "compaction",
            Self::Crash(_) => "crash",
            Self::Stop(_) => "stopped process",
            Self::Pause(_) => "paused machine",
            Self::LoseLease(_) => "lost lease",
            Self::SetClock(..) => "wrong clock",
            Self::LoseNode(_) => "lost node",
            Self::OnWrite(_, WriteFault::Delay(_)) => "delayed write",
            Self::OnWrite(_, WriteFault::Deny) => "denied write",
            Self::OnWrite(_, WriteFault::LoseRequest) => "write lost",
            Self::OnWrite(_, WriteFault::LoseAnswer) => "answer to write",
            Self::OnWrite(_, WriteFault::CrashBefore) => "crash at write",
            Self::OnWrite(_, WriteFault::CrashAfter) => "crash after",
            Self::OnWrite(_, WriteFault::StallWatches(_)) => "stall at write",
        }
    }
}
