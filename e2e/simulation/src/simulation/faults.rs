//! The begin and the end of faults, and the processes of the replicas.

use std::time::Duration;

use jiff::SignedDuration;

use super::Simulation;
use crate::random::hash;
use crate::replica::{ReplicaStart, RunningReplica};
use crate::script::Fault;

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
            Fault::Crash(replica) => {
                self.stop_replica(replica);
                self.replicas[replica].is_down = true;
            }
            Fault::Stop(replica) | Fault::Pause(replica) => {
                self.replicas[replica].is_frozen = true;
            }
            Fault::SetClock(replica, seconds) => {
                self.set_clock_forward(replica, SignedDuration::from_secs(seconds));
            }
            _ => {}
        }
    }

    pub(super) fn end_fault(&mut self, index: usize) {
        let fault = &self.script.faults[index].fault;
        self.trace
            .record(self.now, &format!("fault ends: {fault:?}"), &[]);
        match *fault {
            Fault::Crash(replica) => {
                self.replicas[replica].is_down = false;
                self.start_replica(replica);
            }
            Fault::Stop(replica) | Fault::Pause(replica) => {
                let stops_clocks = matches!(fault, Fault::Pause(_));
                let slot = &mut self.replicas[replica];
                slot.is_frozen = false;
                if let Some(running) = &mut slot.running {
                    running.thaw(self.now, stops_clocks);
                }
            }
            Fault::SetClock(replica, seconds) => {
                self.set_clock_forward(replica, SignedDuration::from_secs(-seconds));
            }
            _ => {}
        }
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
        let slot = &mut self.replicas[index];
        if slot.running.is_some() || slot.is_down {
            return;
        }
        slot.starts += 1;
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
        }));
    }

    /// Ends the process of a replica, at any await.
    pub(super) fn stop_replica(&mut self, index: usize) {
        self.replicas[index].running = None;
        self.watches.retain(|_, open| open.replica != index);
    }
}
