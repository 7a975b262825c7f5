//! An autoscaler, and how a seed chooses one.

use serde::{Deserialize, Serialize};

use super::coincidences::{act_on_job, write_fault};
use super::{Act, ActScript, Fault, FaultScript, Script, WriteChoice, WriteKind};
use crate::random::RandomSequence;

/// GPUs of a queue that had no quota: nodes are ordered only by quota of their flavor.
const AMPLE_QUOTA: u32 = 64;

/// Milliseconds in which Trellis, the API server and the autoscaler act on a new node.
const SLACK: u64 = 30_000;

/// An autoscaler and the orders of the queues' flavor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AutoscalerScript {
    /// GPUs of each new node.
    pub gpus: u32,
    /// The most new nodes that exist at a time. The provider has no more.
    pub stock: u32,
    /// Longest milliseconds from the purchase of a node until it is ready.
    pub arrival: u64,
    /// Seconds after which a node without pods is removed.
    pub removal_seconds: u64,
    /// Longest delay of the Job controller in milliseconds.
    pub job_controller: u64,
    /// `maxNodes` of the flavor.
    pub max_nodes: u32,
    /// `timeoutSeconds` of the flavor.
    pub timeout_seconds: u64,
    /// `idleSeconds` of the flavor.
    pub idle_seconds: u64,
    /// `afterSeconds` of the queues.
    pub after_seconds: u64,
    /// Jobs preempt others rather than cause new nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preempts_first: bool,
}

impl AutoscalerScript {
    /// Returns the number of new nodes that come in time, whatever the network does.
    pub(crate) fn reliable_nodes(&self, script: &Script) -> u32 {
        let slowest = self.arrival + self.job_controller + 3 * script.network.watch;
        let patience = 1000 * self.timeout_seconds.min(self.idle_seconds);
        let most = self.max_nodes.saturating_sub(script.nodes.len() as u32);
        match slowest + SLACK < patience {
            true => self.stock.min(most),
            false => 0,
        }
    }
}

impl Script {
    /// Replaces some nodes of a quarter of the scripts by an autoscaler. It draws from a sequence of
    /// its own, so the other scripts stay.
    pub(super) fn with_autoscaler(mut self) -> Self {
        let random = &mut RandomSequence::new(self.seed, "autoscaler");
        if !random.chance(250) {
            return self;
        }
        let all = self.nodes.len();
        let kept = match random.chance(500) {
            true => 0,
            false => random.between(0, all as u64 - 1) as usize,
        };
        let missing = (all - kept) as u32;
        self.remove_nodes_from(kept);
        let stock = match random.between(0, 9) {
            0 | 1 => random.between(0, missing.into()) as u32,
            2 => missing + 2,
            _ => missing,
        };
        self.autoscaler = Some(AutoscalerScript {
            gpus: 8,
            stock,
            arrival: *random.choose(&[2_000, 20_000, 20_000, 60_000, 150_000]),
            removal_seconds: *random.choose(&[60, 60, 300]),
            job_controller: *random.choose(&[50, 50, 2000, 20_000]),
            max_nodes: (all as u32) + random.between(0, 1) as u32,
            timeout_seconds: *random.choose(&[60, 120, 600]),
            idle_seconds: *random.choose(&[60, 120, 600]),
            after_seconds: *random.choose(&[0, 5, 30]),
            preempts_first: random.chance(300),
        });
        for queue in &mut self.queues {
            queue.gpus.get_or_insert(AMPLE_QUOTA);
        }
        for _ in 0..random.between(0, 3) {
            self.add_fault_of_order(random);
        }
        if random.chance(400) {
            self.add_act_at_order(random);
        }
        self.calm_from += 120;
        self
    }

    /// Removes the nodes from this number on, with the acts and faults that are about them.
    fn remove_nodes_from(&mut self, first: usize) {
        self.nodes.truncate(first);
        self.acts.retain(|act| match act.act {
            Act::Cordon(node) | Act::Uncordon(node) => node < first,
            Act::Quarantine(node) | Act::Release(node) => node < first,
            _ => true,
        });
        self.faults
            .retain(|fault| !matches!(fault.fault, Fault::LoseNode(node) if node >= first));
    }

    /// Adds a fault of a write by which nodes are ordered or an order ends.
    fn add_fault_of_order(&mut self, random: &mut RandomSequence) {
        let write = any_write_of_order(random);
        let watched = *random.choose(&["pods", "pods", "podgroups"]);
        let at = random.choose(&self.jobs).at;
        self.faults.push(FaultScript {
            at: 1000 * at,
            seconds: *random.choose(&[30, 60, 120]),
            fault: Fault::OnWrite(write, write_fault(random, watched)),
        });
    }

    /// Adds an act of a user after such a write.
    fn add_act_at_order(&mut self, random: &mut RandomSequence) {
        let write = any_write_of_order(random);
        let job = random.choose(&self.jobs);
        let (name, at) = (job.name.clone(), job.at);
        let (act, later) = match random.between(0, 5) {
            5 => (Act::DeletePlaceholder, None),
            choice => act_on_job(choice, name),
        };
        let millis = random.log_uniform_millis(1, 60_000).as_millis() as u64;
        let pause = random.log_uniform_millis(1, 60_000).as_millis() as u64;
        let mut add = |act, millis| {
            self.acts.push(ActScript::new(at, Some(write), millis, act));
        };
        add(act, millis);
        if let Some(later) = later {
            add(later, millis + pause);
        }
    }
}

fn any_write_of_order(random: &mut RandomSequence) -> WriteChoice {
    let kind = *random.choose(&[
        WriteKind::NodeOrder,
        WriteKind::NodeOrder,
        WriteKind::Journal,
        WriteKind::PodCreation,
    ]);
    WriteChoice {
        kind,
        number: random.between(1, 4),
    }
}
