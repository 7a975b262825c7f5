//! Judges a run by the rules of `trellis-verify`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
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
    pub(crate) fn new(now: Timestamp) -> Self {
        let mut verifier = Verifier::new(now);
        verifier.start();
        Self {
            verifier,
            findings: Vec::new(),
        }
    }

    /// Takes in a write that the API server accepted.
    pub(crate) fn observe(
        &mut self,
        plural: &str,
        (time, revision): (Timestamp, u64),
        before: Option<&Value>,
        after: Option<&Value>,
    ) {
        let written = after.or(before).expect("a change has an object");
        let Some(object) = ObjectVersion::decode(plural, written, after.is_none()) else {
            return;
        };
        let object = object.expect("the API server stores valid objects");
        self.verifier.observe(&Change {
            time,
            revision,
            object,
            is_listed: false,
        });
        self.findings.extend(self.verifier.take_findings());
    }

    pub(crate) fn pass_time(&mut self, now: Timestamp, health: Health) {
        self.verifier.pass_time(now, health);
        self.findings.extend(self.verifier.take_findings());
    }

    /// Returns the broken rules. Without the policy `trellis-leader`, an earlier leader may write a
    /// journal after its term.
    pub(crate) fn findings(&self, script: &Script) -> impl Iterator<Item = &Finding> {
        let is_promised = |rule: Rule| !(script.lacks_leader_policy && rule == Rule::StaleJournal);
        self.findings
            .iter()
            .filter(move |finding| is_promised(finding.rule))
    }
}

/// Returns whether the cluster is healthy: no fault is there or has just ended.
pub(crate) fn health(now: VirtualTime, faults: &[FaultScript]) -> Health {
    let disturbs = |fault: &FaultScript| (fault.begin()..fault.end() + SETTLE_TIME).contains(&now);
    match faults.iter().any(disturbs) {
        true => Health::Unhealthy,
        false => Health::Healthy,
    }
}
