//! Faults and acts that wait for a single write of the operator.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use hyper::body::Bytes;

use crate::script::{Fault, FaultScript, Script, WriteChoice, WriteFault, WriteKind};
use crate::time::VirtualTime;

/// Counts the writes that faults and acts wait for, by their number in the script.
#[derive(Debug, Default)]
pub(super) struct SingleWrites {
    faults: BTreeMap<usize, FaultProgress>,
    acts: BTreeMap<usize, u64>,
}

#[derive(Debug, Default)]
struct FaultProgress {
    /// Writes of its kind since the begin.
    writes: u64,
    /// The replica that the fault has killed.
    crashed: Option<usize>,
}

/// Returns true if a request is a write of the kind.
pub(super) fn is_write_of(kind: WriteKind, request: &Request<Bytes>) -> bool {
    let target = request.uri().path_and_query();
    kind.includes(
        request.method(),
        target.map_or("", |target| target.as_str()),
    )
}

/// Counts a write. Returns true if it is the chosen one.
fn is_chosen(writes: &mut u64, choice: &WriteChoice, request: &Request<Bytes>) -> bool {
    if !is_write_of(choice.kind, request) {
        return false;
    }
    *writes += 1;
    *writes == choice.number
}

impl SingleWrites {
    /// Counts a write that a replica sends. Returns the faults that it meets.
    pub(super) fn count_for_faults<'s>(
        &mut self,
        script: &'s Script,
        now: VirtualTime,
        replica: usize,
        request: &Request<Bytes>,
    ) -> Vec<(&'s FaultScript, &'s WriteFault)> {
        let mut met = Vec::new();
        for (index, fault) in script.faults.iter().enumerate() {
            let Fault::OnWrite(choice, of_write) = &fault.fault else {
                continue;
            };
            if !fault.is_active(now) {
                continue;
            }
            let progress = self.faults.entry(index).or_default();
            if is_chosen(&mut progress.writes, choice, request) {
                if matches!(of_write, WriteFault::CrashBefore | WriteFault::CrashAfter) {
                    progress.crashed = Some(replica);
                }
                met.push((fault, of_write));
            }
        }
        met
    }

    /// Counts a write that a replica sends. Returns the acts that follow it, and when.
    pub(super) fn count_for_acts(
        &mut self,
        script: &Script,
        now: VirtualTime,
        request: &Request<Bytes>,
    ) -> Vec<(VirtualTime, usize)> {
        let calm = VirtualTime::default() + Duration::from_secs(script.calm_from);
        let mut due = Vec::new();
        for (index, act) in script.acts.iter().enumerate() {
            let Some(after) = &act.after else {
                continue;
            };
            let begin = VirtualTime::default() + Duration::from_secs(act.at);
            let writes = self.acts.entry(index).or_default();
            if now >= begin && is_chosen(writes, &after.write, request) {
                due.push((now + Duration::from_millis(after.millis), index));
            }
        }
        due.retain(|(time, _)| *time <= calm);
        due
    }

    /// Returns true if the fault has met its write.
    pub(super) fn has_met(&self, fault: usize, choice: &WriteChoice) -> bool {
        self.faults
            .get(&fault)
            .is_some_and(|progress| progress.writes >= choice.number)
    }

    /// Ends a fault. Returns the replica that it has killed.
    pub(super) fn end(&mut self, fault: usize) -> Option<usize> {
        self.faults.remove(&fault)?.crashed
    }
}
