use super::view::{render_finding, render_summary};
use super::*;

fn report(findings: Vec<FindingRow>) -> VerifyReport {
    VerifyReport {
        findings,
        rules: Rule::ALL.iter().map(|rule| rule.as_str()).collect(),
        jobs: 12,
        pods: 96,
        nodes: 8,
        seconds: 600,
        healthy_seconds: 570,
        broken_kinds: Vec::new(),
        gaps: 0,
        unread: Vec::new(),
        unseen: Vec::new(),
        is_led: true,
    }
}

fn torn() -> FindingRow {
    FindingRow {
        rule: Rule::Torn.as_str(),
        promise: Rule::Torn.promise(),
        kind: "TrainingJob",
        namespace: "team-a".to_owned(),
        name: "llama".to_owned(),
        message: "task group \"worker\": 7 of 8 planned pods live, 0 have ended".to_owned(),
        since: "2026-11-27T10:00:00Z".to_owned(),
        revision: None,
        look_at: Rule::Torn.look_at(),
    }
}

#[test]
fn summary_says_what_was_seen_and_what_was_not() {
    assert_eq!(
        render_summary(&report(Vec::new())),
        format!(
            "All {} judged rules hold, seen for 600 s: 12 jobs, 96 pods of Trellis and 8 nodes.\nhealthy time: 570 of 600 s; a rule with a bound needs longer than its bound\n",
            Rule::ALL.len()
        )
    );
    let mut unled = report(Vec::new());
    unled.is_led = false;
    unled.gaps = 2;
    unled.seconds = 0;
    unled.unseen = vec!["3 writes of pods at level Metadata".to_owned()];
    unled.unread = vec!["trainingjobs team-a/llama".to_owned()];
    let text = render_summary(&unled);
    for part in [
        "No judged rule is broken, seen in one look",
        "no replica",
        "one look shows",
        "broke 2 times",
        "3 writes of pods at level Metadata have no object",
        "1 objects do not decode and are not judged, first trainingjobs team-a/llama",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn finding_shows_object_promise_and_advice() {
    let text = render_finding(&torn());
    insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
}

#[test]
fn exit_status_is_one_for_findings_and_two_without_a_leader() {
    let mut all = report(Vec::new());
    assert_eq!(all.exit(), Exit::Done);
    all.broken_kinds = vec!["pods"];
    assert_eq!(all.exit(), Exit::Invalid);
    all.broken_kinds.clear();
    all.unseen = vec!["3 writes of pods at level Metadata".to_owned()];
    assert_eq!(all.exit(), Exit::Invalid);
    all.unseen.clear();
    all.is_led = false;
    assert_eq!(all.exit(), Exit::Invalid);
    all.findings.push(torn());
    assert_eq!(all.exit(), Exit::Negative);
}
