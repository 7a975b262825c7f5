//! Elastic jobs, and how a seed chooses them.

use serde::{Deserialize, Serialize};

use super::coincidences::{any_kind, write_fault};
use super::{Act, ActScript, Fault, FaultScript, JobScript, Script};
use super::{WriteChoice, WriteKind};
use crate::random::RandomSequence;

/// How a job grows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ElasticScript {
    /// Number of pods that start together.
    pub min_replicas: u32,
    /// Number of pods of each slice. A slice is in one rack, starts and leaves as a whole, and
    /// restarts alone. None: pods come and go singly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_pods: Option<u32>,
}

impl Script {
    /// Makes most jobs of a fifth of the scripts elastic, and lets nodes and pods fail. It draws from a
    /// sequence of its own, so the other scripts do not change.
    pub(super) fn with_elastic_jobs(mut self) -> Self {
        let random = &mut RandomSequence::new(self.seed, "elastic");
        if self.autoscaler.is_some() || !random.chance(270) {
            return self;
        }
        self.rack_nodes = random.between(1, 2) as usize;
        if random.chance(500) {
            // One job, and what happens to its slices.
            self.jobs.truncate(1);
            self.jobs[0].queue = 0;
            self.queues.truncate(1);
            self.queues[0].gpus = None;
            self.acts.clear();
            self.faults.clear();
        }
        let jobs = &self.jobs;
        let has_job = |name: &str| jobs.iter().any(|job| job.name == name);
        self.acts.retain(|act| act.act.job().is_none_or(has_job));
        for job in &mut self.jobs {
            if random.chance(800) {
                make_elastic(random, job);
            }
        }
        let gpus: u32 = self.jobs.iter().map(|job| job.replicas * job.gpus).sum();
        // Most scripts have room for all pods and for the pods of one more node.
        if random.chance(750) {
            while self.nodes.iter().sum::<u32>() < gpus + 8 {
                self.nodes.push(8);
            }
        }
        for _ in 0..random.between(1, 5) {
            self.add_failure(random);
        }
        let last = self.acts.iter().map(|act| act.at + 60).max();
        self.calm_from = self.calm_from.max(last.unwrap_or_default());
        self
    }

    /// Adds a failure of a pod or a node, or a change of the number of pods, and often a fault of a
    /// write that follows.
    fn add_failure(&mut self, random: &mut RandomSequence) {
        let job = random.choose(&self.jobs).clone();
        let node = random.between(0, self.nodes.len() as u64 - 1) as usize;
        let at = job.at + random.between(1, job.run_seconds[0].max(2));
        let number = random.between(0, 11) as usize;
        let kill = || Act::KillProcess(job.name.clone(), number);
        let resize = |replicas| Act::SetReplicas(job.name.clone(), replicas);
        let (act, later) = match random.between(0, 9) {
            0 | 1 => (Some(kill()), None),
            2 => (Some(Act::DeletePod(job.name.clone())), None),
            3..=5 => (Some(Act::Quarantine(node)), Some(Act::Release(node))),
            6 => (Some(Act::Cordon(node)), Some(Act::Uncordon(node))),
            7 => (
                Some(resize(job.choose_size(random))),
                Some(resize(job.replicas)),
            ),
            _ => (None, None),
        };
        match act {
            Some(act) => self.add_act(random, at, act, later),
            None => self.faults.push(FaultScript {
                at: 1000 * at,
                seconds: *random.choose(&[20, 90, 240]),
                fault: Fault::LoseNode(node),
            }),
        }
        if random.chance(500) {
            let kind = any_kind(random);
            let number = random.between(1, 6);
            let watched = *random.choose(&["pods", "pods", "podgroups"]);
            self.faults.push(FaultScript {
                at: 1000 * at,
                seconds: *random.choose(&[10, 30, 60]),
                fault: Fault::OnWrite(WriteChoice { kind, number }, write_fault(random, watched)),
            });
        }
    }

    /// Adds an act and a later act that undoes it. Both happen at their times, or after a write.
    fn add_act(&mut self, random: &mut RandomSequence, at: u64, act: Act, later: Option<Act>) {
        let pause = *random.choose(&[5, 40, 150]);
        let write = WriteChoice {
            kind: *random.choose(&[WriteKind::Journal, WriteKind::PodDeletion]),
            number: random.between(1, 2),
        };
        let millis = random.log_uniform_millis(1, 5000).as_millis() as u64;
        let write = random.chance(300).then_some(write);
        let millis = write.map_or(0, |_| millis);
        let later = later.map(|act| (act, millis + 1000 * pause));
        let acts = std::iter::once((act, millis)).chain(later);
        let acts = acts.map(|(act, millis)| ActScript::new(at, write, millis, act));
        self.acts.extend(acts);
    }
}

impl Act {
    /// Returns the name of the job of the act.
    fn job(&self) -> Option<&str> {
        match self {
            Self::Delete(job)
            | Self::Suspend(job)
            | Self::Resume(job)
            | Self::Submit(job)
            | Self::DeletePod(job)
            | Self::KillProcess(job, _)
            | Self::SetReplicas(job, _)
            | Self::DeletePodGroup(job) => Some(job),
            _ => None,
        }
    }
}

impl JobScript {
    /// Chooses a number of pods from the size of the gang up to `replicas`, in whole slices.
    fn choose_size(&self, random: &mut RandomSequence) -> u32 {
        let unit = self.slice_pods();
        let least = self.gang_size() / unit;
        unit * random.between(least.into(), (self.replicas / unit).into()) as u32
    }
}

fn make_elastic(random: &mut RandomSequence, job: &mut JobScript) {
    job.gpus = *random.choose(&[1, 2, 4, 4]);
    for seconds in &mut job.run_seconds {
        *seconds = (*seconds).max(*random.choose(&[60, 200, 400]));
    }
    let units = random.between(2, 4) as u32;
    let slice_pods = random.chance(800).then(|| *random.choose(&[1, 2, 2, 3]));
    let unit = slice_pods.unwrap_or(1);
    job.replicas = unit * units;
    job.elastic = Some(ElasticScript {
        min_replicas: unit * random.between(1, u64::from(units) - 1) as u32,
        slice_pods,
    });
    if slice_pods.is_some() {
        // A slice restarts in the same attempt, and would fail again and again.
        job.failures = 0;
    }
}
