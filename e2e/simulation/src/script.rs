//! A script: the cluster, what its users do, and the faults. A seed makes a script, and a script can
//! be stored, shortened and run again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::random::RandomSequence;
use crate::time::VirtualTime;

/// Everything about a run that is decided before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// The source of the random numbers that are drawn during the run.
    pub seed: u64,
    /// GPUs of each node.
    pub nodes: Vec<u32>,
    /// Number of replicas of the operator.
    pub replicas: usize,
    /// Duration of the Lease in seconds.
    pub lease_seconds: u64,
    /// GPUs of the queue. None: the capacity of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_gpus: Option<u32>,
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
    /// Second at which it is submitted.
    pub at: u64,
    /// Number of pods.
    pub replicas: u32,
    /// GPUs of each pod.
    pub gpus: u32,
    /// Seconds for which its pods run in each attempt. The last entry counts for all later ones.
    pub run_seconds: Vec<u64>,
    /// Number of attempts that fail.
    pub failures: usize,
    /// Seconds of the grace period of its pods.
    pub grace_seconds: u64,
}

/// An act of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActScript {
    /// Second at which it happens.
    pub at: u64,
    /// The act.
    pub act: Act,
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
    /// Deletes the PodGroup of a job.
    DeletePodGroup(String),
    /// Marks the node with this number as unschedulable.
    Cordon(usize),
    /// Lets pods onto the node again.
    Uncordon(usize),
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
    /// The wall clock of a replica's machine is set forward by these seconds, or back if negative.
    SetClock(usize, i64),
}

impl Fault {
    /// Returns true if the fault meets single requests.
    pub(crate) fn is_of_requests(&self) -> bool {
        matches!(
            self,
            Self::LoseRequests(_) | Self::LoseAnswers(_) | Self::Unavailable(_)
        )
    }

    /// Returns the name of the kind of fault.
    pub(crate) fn name(&self) -> &'static str {
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
            Self::SetClock(..) => "wrong clock",
        }
    }
}

impl Script {
    /// Makes the script of a seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let random = &mut RandomSequence::new(seed, "script");
        let calm_from = random.between(60, 300);
        let nodes: Vec<u32> = (0..random.between(1, 5))
            .map(|_| *random.choose(&[4, 8, 8]))
            .collect();
        let capacity: u32 = nodes.iter().sum();
        let jobs: Vec<_> = (0..random.between(1, 4))
            .map(|index| job(random, index, capacity, calm_from))
            .collect();
        let acts = (0..random.between(0, 5))
            .map(|_| act(random, &jobs, nodes.len(), calm_from))
            .collect();
        let replicas = random.between(1, 2) as usize;
        let faults = (0..random.between(0, 5))
            .map(|_| fault(random, replicas, &jobs, calm_from))
            .collect();
        let lease_seconds = *random.choose(&[4, 15]);
        // On a network that is always slow, no leader keeps a short lease.
        let request_delays: &[u64] = match lease_seconds {
            4 => &[5, 50],
            _ => &[5, 50, 1000],
        };
        Self {
            seed,
            replicas,
            lease_seconds,
            queue_gpus: random
                .chance(300)
                .then(|| random.between(u64::from(capacity) / 2, u64::from(capacity)) as u32),
            network: NetworkDelays {
                request: *random.choose(request_delays),
                watch: *random.choose(&[5, 100, 3000, 20_000]),
            },
            kubelets: KubeletDelays {
                start: *random.choose(&[50, 2000, 20_000]),
                stop: *random.choose(&[50, 2000, 60_000]),
                collect: *random.choose(&[50, 5000]),
            },
            nodes,
            jobs,
            acts,
            faults,
            calm_from,
        }
    }
}

fn job(random: &mut RandomSequence, index: u64, capacity: u32, calm_from: u64) -> JobScript {
    let gpus = *random.choose(&[0, 1, 2, 4, 4]);
    let most = u64::from(capacity / gpus.max(1)).clamp(1, 8);
    JobScript {
        name: format!("job-{index}"),
        at: random.between(0, calm_from / 2),
        replicas: random.between(1, most) as u32,
        gpus,
        run_seconds: (0..2).map(|_| random.between(1, 90)).collect(),
        failures: random.chance(300).into(),
        grace_seconds: *random.choose(&[1, 5, 30, 90]),
    }
}

fn act(random: &mut RandomSequence, jobs: &[JobScript], nodes: usize, calm_from: u64) -> ActScript {
    let job = random.choose(jobs).name.clone();
    let node = random.between(0, nodes as u64 - 1) as usize;
    let act = match random.between(0, 7) {
        0 => Act::Delete(job),
        1 => Act::Suspend(job),
        2 => Act::Resume(job),
        3 => Act::Submit(job),
        4 => Act::DeletePod(job),
        5 => Act::DeletePodGroup(job),
        6 => Act::Cordon(node),
        _ => Act::Uncordon(node),
    };
    ActScript {
        at: random.between(0, calm_from),
        act,
    }
}

fn fault(
    random: &mut RandomSequence,
    replicas: usize,
    jobs: &[JobScript],
    calm_from: u64,
) -> FaultScript {
    let replica = random.between(0, replicas as u64 - 1) as usize;
    let kind = *random.choose(&[
        "pods",
        "podgroups",
        "trainingjobs",
        "nodes",
        "trainingqueues",
    ]);
    let fault = match random.between(0, 10) {
        0 => Fault::LoseRequests(random.between(1, 300)),
        1 | 2 => Fault::LoseAnswers(random.between(1, 300)),
        3 => Fault::Slow(random.between(100, 30_000)),
        4 => Fault::Unavailable(random.between(1, 1000)),
        5 => Fault::StallWatches(kind.to_owned()),
        6 => Fault::Compact,
        7 => Fault::Crash(replica),
        8 => Fault::Stop(replica),
        9 => Fault::Pause(replica),
        _ => Fault::SetClock(replica, *random.choose(&[-120, -5, 5, 120])),
    };
    // A gang is committed within seconds after its submission, and rolled back after its end.
    let at = match random.between(0, 2) {
        0 => random.between(0, 1000 * calm_from),
        1 => {
            1000 * random.choose(jobs).at + random.log_uniform_millis(1, 10_000).as_millis() as u64
        }
        _ => {
            let job = random.choose(jobs);
            1000 * (job.at + job.run_seconds[0]) + random.between(0, 5000)
        }
    };
    FaultScript {
        at,
        seconds: random.between(1, 60),
        fault,
    }
}
