//! Judges a run by the rules of `trellis-verify`.

use std::time::Duration;

use jiff::Timestamp;
use trellis_api_server::HistoryEntry;
use trellis_verify::{Change, Finding, Health, ObjectVersion, Rule, Verifier};

use crate::script::{FaultScript, Script};
use crate::time::VirtualTime;

/// Time after a fault in which Trellis may still wait to try again.
const SETTLE_TIME: Duration = Duration::from_secs(60);

pub(crate) struct Oracle {
    verifier: Verifier,
    findings: Vec<Finding>,
}

impl Oracle {
    /// Judges from a time on. The writes so far made the objects that exist when the history
    /// starts.
    pub(crate) fn new(now: Timestamp, writes: &[HistoryEntry]) -> Self {
        let mut verifier = Verifier::new(now);
        for change in writes.iter().filter_map(change) {
            verifier.load(&change);
        }
        verifier.start();
        Self {
            verifier,
            findings: Vec::new(),
        }
    }

    /// Takes in a write that the API server accepted.
    pub(crate) fn observe(&mut self, write: &HistoryEntry) {
        let Some(change) = change(write) else { return };
        self.verifier.observe(&change);
        self.findings.extend(self.verifier.take_findings());
    }

    pub(crate) fn pass_time(&mut self, now: Timestamp, health: Health) {
        self.verifier.pass_time(now, health);
        self.findings.extend(self.verifier.take_findings());
    }

    /// Returns the broken rules. Without the policy `trellis-leader`, an earlier leader may write a
    /// journal after its term, with a plan whose quota the next leader has given away.
    pub(crate) fn findings(&self, script: &Script) -> impl Iterator<Item = &Finding> {
        let is_promised = |rule: Rule| {
            !(script.lacks_leader_policy && matches!(rule, Rule::StaleJournal | Rule::OverQuota))
        };
        self.findings
            .iter()
            .filter(move |finding| is_promised(finding.rule))
    }
}

/// Returns the change of a kind that rules judge.
fn change(write: &HistoryEntry) -> Option<Change> {
    let written = write.after.as_ref().or(write.before.as_ref());
    let written = written.expect("a write has an object");
    let object = ObjectVersion::decode(&write.kind.plural, written.value(), write.after.is_none())?;
    Some(Change {
        time: write.time,
        revision: write.revision,
        object: object.expect("the API server stores valid objects"),
        is_listed: false,
    })
}

/// Returns whether the cluster is healthy: no fault is there or has just ended.
pub(crate) fn health(now: VirtualTime, faults: &[FaultScript]) -> Health {
    let disturbs = |fault: &FaultScript| (fault.begin()..fault.end() + SETTLE_TIME).contains(&now);
    match faults.iter().any(disturbs) {
        true => Health::Unhealthy,
        false => Health::Healthy,
    }
}
