//! A verifier that sees the cluster once, without a history.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::gang_history::{GangHistory, HistoryOptions, Kind, Write};
use crate::{Health, Rule, Verifier};

/// Judges the state after the first writes of a history, `seconds` after its last write.
fn look(writes: &[Write], seconds: i64) -> Vec<Rule> {
    let last = writes.last().unwrap().second;
    let now = Timestamp::from_second(last).unwrap() + SignedDuration::from_secs(seconds);
    let mut verifier = Verifier::new(now);
    for (revision, write) in (1..).zip(writes) {
        let mut write = write.clone();
        let time = Timestamp::from_second(write.second).unwrap();
        write.object["metadata"]["creationTimestamp"] = json!(time);
        verifier.load(&write.change(revision));
    }
    verifier.start();
    verifier.pass_time(now, Health::Healthy);
    let findings = verifier.take_findings();
    findings.iter().map(|finding| finding.rule).collect()
}

/// A gang of two pods that runs, without its first pod.
fn torn_gang() -> Vec<Write> {
    let history = GangHistory::new(HistoryOptions::plain(2));
    let end = history.find(|write| write.object["status"]["phase"] == "Succeeded")[0];
    let mut writes = history.writes[..end].to_vec();
    writes.retain(|write| {
        write.kind != Kind::Pod || write.object["metadata"]["name"] != "j-worker-0"
    });
    writes
}

#[test]
fn state_that_no_write_has_changed_for_too_long_is_reported() {
    assert_eq!(look(&torn_gang(), 299), []);
    assert_eq!(look(&torn_gang(), 301), [Rule::Torn]);
}
