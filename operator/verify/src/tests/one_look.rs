//! A verifier that sees the cluster once, without a history.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::story::{Kind, Plot, Story, Write};
use crate::{Health, Rule, Verifier};

/// Judges the state after the first writes of a story, `seconds` after its last write.
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
    let story = Story::new(Plot {
        pods: 2,
        is_rolled_back_first: false,
        has_second_attempt: false,
        stop_seconds: 5,
    });
    let end = story.find(|write| write.object["status"]["phase"] == "Succeeded")[0];
    let mut writes = story.writes[..end].to_vec();
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
