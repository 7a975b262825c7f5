//! Faults of single writes: they wait for the write with their number.

use std::collections::BTreeMap;

use crate::script::{Fault, FaultScript, WriteFault};
use crate::time::VirtualTime;

/// The faults of single writes that have begun, by their number in the script.
#[derive(Debug, Default)]
pub(super) struct SingleWrites(BTreeMap<usize, Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// Writes since the begin.
    writes: u64,
    /// The replica that the fault has killed.
    crashed: Option<usize>,
}

impl SingleWrites {
    /// Counts a write that a replica sends. Returns the fault that it meets.
    pub(super) fn count<'s>(
        &mut self,
        faults: &'s [FaultScript],
        now: VirtualTime,
        replica: usize,
    ) -> Option<(&'s Fault, &'s WriteFault)> {
        let mut met = None;
        for (index, script) in faults.iter().enumerate() {
            let Fault::OnWrite(number, fault) = &script.fault else {
                continue;
            };
            if !script.is_active(now) {
                continue;
            }
            let progress = self.0.entry(index).or_default();
            progress.writes += 1;
            if progress.writes == *number {
                if matches!(fault, WriteFault::CrashBefore | WriteFault::CrashAfter) {
                    progress.crashed = Some(replica);
                }
                met = Some((&script.fault, fault));
            }
        }
        met
    }

    /// Returns true if the fault has met its write, the one with this number.
    pub(super) fn has_met(&self, fault: usize, number: u64) -> bool {
        self.0
            .get(&fault)
            .is_some_and(|progress| progress.writes >= number)
    }

    /// Ends a fault. Returns the replica that it has killed.
    pub(super) fn end(&mut self, fault: usize) -> Option<usize> {
        self.0.remove(&fault)?.crashed
    }
}
