//! The begin and the end of faults, and the processes of the replicas.

use std::time::Duration;

use jiff::SignedDuration;

use super::Simulation;
use super::lease_use::LeaseUse;
use crate::access::Access;
use crate::cluster;
use crate::kubelet::PodIdentity;
use crate::random::hash;
use crate::replica::{ReplicaStart, RunningReplica};
use crate::script::{Fault, FaultScript, WriteFault};
use crate::time::VirtualTime;

impl Simulation<'_> {
    pub(super) fn begin_fault(&mut self, index: usize) {
        let fault = &self.script.faults[index].fault;
        self.trace
            .record(self.now, &format!("fault begins: {fault:?}"), &[]);
        if !fault.is_of_requests() {
            self.coverage.count(fault, &self.server);
        }
        match *fault {
            Fault::Compact => {
                self.server.compact(self.server.revision());
                self.watches.clear();
            }
            Fault::Crash(replica) => self.crash(replica),
            Fault::Stop(replica) | Fault::Pause(replica) => {
                self.replicas[replica].is_frozen = true;
            }
            Fault::SetClock(replica, seconds) => {
                self.set_clock_forward(replica, SignedDuration::from_secs(seconds));
            }
            Fault::LoseNode(node) => self.set_node_ready(node, false),
            _ => {}
        }
    }

    pub(super) fn end_fault(&mut self, index: usize) {
        let fault = &self.script.faults[index].fault;
        self.trace
            .record(self.now, &format!("fault ends: {fault:?}"), &[]);
        match *fault {
            Fault::Crash(replica) => self.end_crash(replica),
            Fault::OnWrite(..) => {
                if let Some(replica) = self.single_writes.end(index) {
                    self.end_crash(replica);
                }
            }
            Fault::LoseNode(node) => self.set_node_ready(node, true),
            Fault::Stop(replica) | Fault::Pause(replica) => {
                let stops_clocks = matches!(fault, Fault::Pause(_));
                let slot = &mut self.replicas[replica];
                slot.is_frozen = false;
                if let Some(running) = &mut slot.running {
                    if stops_clocks {
                        slot.lease.pause(self.now.since(running.clock()));
                    }
                    running.thaw(self.now, stops_clocks);
                }
            }
            Fault::SetClock(replica, seconds) => {
                self.set_clock_forward(replica, SignedDuration::from_secs(-seconds));
            }
            _ => {}
        }
    }

    /// Kills the process of a replica until the end of a fault.
    pub(super) fn crash(&mut self, replica: usize) {
        self.stop_replica(replica);
        self.replicas[replica].is_down = true;
    }

    fn end_crash(&mut self, replica: usize) {
        self.replicas[replica].is_down = false;
        self.start_replica(replica);
    }

    /// Writes what the node lifecycle controller writes.
    fn set_node_ready(&mut self, node: usize, is_ready: bool) {
        let now = self.wall_clock();
        let user = "system:serviceaccount:kube-system:node-controller";
        let mut access = Access::new(&mut self.server, user, now);
        cluster::set_node_ready(node, is_ready, &mut access);
    }

    /// Returns true if the node of a pod was removed. It has no kubelet any more.
    pub(super) fn is_node_gone(&self, pod: &PodIdentity) -> bool {
        let pod = self.server.get(&cluster::PODS, &pod.namespace, &pod.name);
        let node = pod.and_then(|pod| pod.value()["spec"]["nodeName"].as_str());
        node.is_some_and(|node| self.server.get(&cluster::NODES, "", node).is_none())
    }

    /// Returns when the node of a pod comes back, if it is lost.
    pub(super) fn return_of_node(&self, pod: &PodIdentity) -> Option<VirtualTime> {
        let lost = |fault: &&FaultScript| {
            matches!(fault.fault, Fault::LoseNode(_)) && fault.is_active(self.now)
        };
        let mut lost = self.script.faults.iter().filter(lost).peekable();
        lost.peek()?;
        let pod = self.server.get(&cluster::PODS, &pod.namespace, &pod.name)?;
        let node = &pod.value()["spec"]["nodeName"];
        let holds_pod = |fault: &&FaultScript| match fault.fault {
            Fault::LoseNode(index) => *node == cluster::node_name(index),
            _ => false,
        };
        lost.filter(holds_pod).map(FaultScript::end).max()
    }

    /// Returns when the stalled watches of a kind go on, if a fault stalls them.
    pub(super) fn end_of_stall(&self, plural: &str) -> Option<VirtualTime> {
        let faults = self.script.faults.iter().enumerate();
        let stalls = |(index, fault): &(usize, &FaultScript)| match &fault.fault {
            Fault::StallWatches(kind) => kind == plural,
            Fault::OnWrite(write, WriteFault::StallWatches(kind)) => {
                kind == plural && self.single_writes.has_met(*index, write)
            }
            _ => false,
        };
        let active = faults.filter(|(_, fault)| fault.is_active(self.now));
        active.filter(stalls).map(|(_, fault)| fault.end()).max()
    }

    fn set_clock_forward(&mut self, replica: usize, step: SignedDuration) {
        let slot = &mut self.replicas[replica];
        slot.clock_offset += step;
        if let Some(running) = &slot.running {
            running.set_clock_forward(step);
        }
    }

    pub(super) fn start_replica(&mut self, index: usize) {
        let wall_clock = self.wall_clock();
        let orders_nodes = self.script.autoscaler.is_some();
        let slot = &mut self.replicas[index];
        if slot.running.is_some() || slot.is_down {
            return;
        }
        slot.starts += 1;
        slot.lease = LeaseUse::default();
        let identity = format!("replica-{index}_{}", slot.starts);
        self.trace
            .record(self.now, &format!("{identity} starts"), &[]);
        slot.running = Some(RunningReplica::start(ReplicaStart {
            seed: hash(self.script.seed, identity.as_bytes()),
            identity,
            time: self.now,
            wall_clock: wall_clock + slot.clock_offset,
            lease: Duration::from_secs(self.script.lease_seconds),
            policies: self.policies.clone(),
            placeholder_namespace: orders_nodes.then(|| cluster::PLACEHOLDER_NAMESPACE.to_owned()),
        }));
    }

    /// Ends the process of a replica, at any await.
    pub(super) fn stop_replica(&mut self, index: usize) {
        self.replicas[index].running = None;
        self.watches.retain(|_, open| open.replica != index);
    }
}
