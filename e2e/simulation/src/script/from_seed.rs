//! The script of a seed.

use super::coincidences::{act_on_job, add_coincidence, write_fault};
use super::incidents::incident;
use super::{
    Act, ActScript, Fault, FaultScript, JobScript, KubeletDelays, NetworkDelays, Priority,
    QueueScript, Script, WriteChoice, WriteKind,
};
use crate::random::RandomSequence;

impl Script {
    /// Makes the script of a seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self::with_fixed_nodes(seed)
            .with_autoscaler()
            .with_elastic_jobs()
    }

    fn with_fixed_nodes(seed: u64) -> Self {
        let random = &mut RandomSequence::new(seed, "script");
        if random.chance(500) {
            return incident(seed, random);
        }
        let calm_from = random.between(60, 300);
        let contention = *random.choose(&[
            Contention::None,
            Contention::Nodes,
            Contention::Nodes,
            Contention::Quota,
        ]);
        let nodes: Vec<u32> = (0..random.between(1, contention.most_nodes()))
            .map(|_| *random.choose(&[4, 8, 8]))
            .collect();
        let capacity: u32 = nodes.iter().sum();
        let queues = queues(random, capacity, contention);
        let room = match contention {
            Contention::Quota => queues.iter().filter_map(|queue| queue.gpus).sum(),
            Contention::None | Contention::Nodes => capacity,
        };
        let mut jobs: Vec<_> = match contention {
            Contention::None => (0..random.between(1, 4))
                .map(|index| job(random, index, capacity, queues.len(), calm_from))
                .collect(),
            Contention::Nodes | Contention::Quota => (0..random.between(2, 5))
                .map(|index| contending_job(random, index, room, queues.len()))
                .collect(),
        };
        let mut acts = Vec::new();
        for _ in 0..random.between(0, 4) {
            add_acts(random, &jobs, nodes.len(), &queues, calm_from, &mut acts);
        }
        let replicas = random.between(1, 2) as usize;
        let mut faults: Vec<_> = (0..random.between(0, 5))
            .map(|_| fault(random, replicas, nodes.len(), &jobs, calm_from))
            .collect();
        for _ in 0..*random.choose(&[0, 1, 1, 2, 3]) {
            add_coincidence(random, &jobs, &mut acts, &mut faults);
        }
        let lease_seconds = *random.choose(&[4, 15]);
        let lacks_leader_policy = is_leader_policy_missing(random);
        if lacks_leader_policy {
            // Only the policy stops a replica that does not know how long its machine stood still.
            for fault in &mut faults {
                if let Fault::Pause(replica) = fault.fault {
                    fault.fault = Fault::Stop(replica);
                }
            }
        }
        let sets_clock = |fault: &FaultScript| matches!(fault.fault, Fault::SetClock(..));
        if faults.iter().any(sets_clock) {
            // A wall clock that is set forward ends minimum runtimes early.
            for job in &mut jobs {
                job.min_runtime_seconds = 0;
            }
        }
        // On a network that is always slow, no leader keeps a short lease.
        let request_delays: &[u64] = match lease_seconds {
            4 => &[5, 50],
            _ => &[5, 50, 1000],
        };
        Self {
            seed,
            replicas,
            lease_seconds,
            lacks_leader_policy,
            autoscaler: None,
            queues,
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
            rack_nodes: 0,
            jobs,
            acts,
            faults,
            calm_from,
        }
    }
}

pub(super) fn is_leader_policy_missing(random: &mut RandomSequence) -> bool {
    random.chance(200)
}

/// The resource that the jobs of a script compete for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contention {
    None,
    Nodes,
    /// The nodes have room for twice the quota.
    Quota,
}

impl Contention {
    fn most_nodes(self) -> u64 {
        match self {
            Self::Nodes => 3,
            Self::None | Self::Quota => 5,
        }
    }
}

/// Returns one queue, or two that lend each other their quota.
fn queues(random: &mut RandomSequence, capacity: u32, contention: Contention) -> Vec<QueueScript> {
    let count = match contention {
        Contention::None => *random.choose(&[1, 1, 2]),
        Contention::Nodes | Contention::Quota => *random.choose(&[1, 2, 2]),
    };
    let has_quota = count == 2 || contention == Contention::Quota || random.chance(300);
    let preempts = contention == Contention::Nodes || random.chance(500);
    let share = capacity / count;
    let queue = |_| QueueScript {
        gpus: has_quota.then(|| match contention {
            Contention::Quota => (share / 2).max(1),
            Contention::None | Contention::Nodes => {
                random.between(u64::from(share / 2), u64::from(share)) as u32
            }
        }),
        preempts,
    };
    (0..count).map(queue).collect()
}

fn job(
    random: &mut RandomSequence,
    index: u64,
    capacity: u32,
    queues: usize,
    calm_from: u64,
) -> JobScript {
    let gpus = *random.choose(&[0, 1, 2, 4, 4]);
    let most = u64::from(capacity / gpus.max(1)).clamp(1, 8);
    JobScript {
        name: format!("job-{index}"),
        queue: random.between(0, queues as u64 - 1) as usize,
        priority: *random.choose(&[Priority::Normal, Priority::Normal, Priority::High]),
        at: random.between(0, calm_from / 2),
        replicas: random.between(1, most) as u32,
        elastic: None,
        gpus,
        run_seconds: (0..2).map(|_| random.between(1, 90)).collect(),
        failures: random.chance(300).into(),
        grace_seconds: *random.choose(&[1, 5, 30, 90]),
        min_runtime_seconds: 0,
    }
}

/// Returns a job that leaves no room for another one of its kind. It comes while they run. `room`: the
/// GPUs of the nodes, or of the quotas.
fn contending_job(random: &mut RandomSequence, index: u64, room: u32, queues: usize) -> JobScript {
    let gpus = (*random.choose(&[1, 2, 4, 4])).min(room.max(1));
    let most = u64::from(room / gpus).clamp(1, 8);
    // The job runs beyond its minimum runtime, and the next one waits for that.
    let (longest_run, min_runtime_seconds) = match random.chance(150) {
        true => (300, *random.choose(&[120, 240])),
        false => (45, 0),
    };
    JobScript {
        name: format!("job-{index}"),
        queue: random.between(0, queues as u64 - 1) as usize,
        priority: *random.choose(&[Priority::Normal, Priority::High]),
        at: random.between(0, 60),
        replicas: random.between(most.div_ceil(2), most) as u32,
        elastic: None,
        gpus,
        run_seconds: (0..2).map(|_| random.between(5, longest_run)).collect(),
        failures: random.chance(500).into(),
        grace_seconds: *random.choose(&[1, 5, 30, 90]),
        min_runtime_seconds,
    }
}

/// Adds an act, and often a later one that takes it back.
fn add_acts(
    random: &mut RandomSequence,
    jobs: &[JobScript],
    nodes: usize,
    queues: &[QueueScript],
    calm_from: u64,
    acts: &mut Vec<ActScript>,
) {
    let name = random.choose(jobs).name.clone();
    let node = random.between(0, nodes as u64 - 1) as usize;
    let queue = random.between(0, queues.len() as u64 - 1) as usize;
    let (act, later) = match random.between(0, 8) {
        choice @ 0..=4 => act_on_job(choice, name),
        5 => (Act::Cordon(node), Some(Act::Uncordon(node))),
        6 => (Act::Quarantine(node), Some(Act::Release(node))),
        7 => (Act::AddQueue, None),
        _ => (
            Act::SetQuota(queue, random.between(0, 16) as u32),
            Some(Act::SetQuota(queue, random.between(0, 16) as u32)),
        ),
    };
    let at = random.between(0, calm_from);
    acts.push(ActScript {
        at,
        after: None,
        act,
    });
    let delay = random.log_uniform_millis(1000, 60_000).as_secs();
    let later = later.filter(|_| at + delay <= calm_from && random.chance(800));
    acts.extend(later.map(|act| ActScript {
        at: at + delay,
        after: None,
        act,
    }));
}

fn fault(
    random: &mut RandomSequence,
    replicas: usize,
    nodes: usize,
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
    let fault = match random.between(0, 18) {
        0 => Fault::LoseRequests(random.between(1, 300)),
        1 | 2 => Fault::LoseAnswers(random.between(1, 300)),
        3 => Fault::Slow(random.between(100, 30_000)),
        4 => Fault::Unavailable(random.between(1, 1000)),
        5 => Fault::StallWatches(kind.to_owned()),
        6 => Fault::Compact,
        7 => Fault::Crash(replica),
        8 => Fault::Stop(replica),
        9 => Fault::Pause(replica),
        10 => Fault::LoseNode(random.between(0, nodes as u64 - 1) as usize),
        11..=16 => {
            let write = WriteChoice {
                kind: WriteKind::Any,
                number: random.between(1, 20),
            };
            Fault::OnWrite(write, write_fault(random, kind))
        }
        17 => Fault::LoseLease(replica),
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
    let longest = *random.choose(&[10, 60, 60, 240]);
    FaultScript {
        at,
        seconds: random.between(1, longest),
        fault,
    }
}
