//! The webhook's answers for jobs match their later status.

use super::*;

#[test]
fn a_job_that_may_run_passes_and_hears_nothing() {
    let answer = submits(&judge(&[]), json!({}));
    assert_eq!(answer, Answer::allowed(Vec::new()));
}

#[test]
fn what_is_denied_is_refused_in_the_words_of_the_status() {
    let by = judge(&[policy("x", NO_IMAGE, "Deny")]);
    let judged = by.judge(asks("TrainingJob", "ada", job(json!({})), Value::Null));
    assert!(judged.may_be_behind);
    let answer = judged.answer;
    assert_eq!(answer.decision, Decision::Refused);
    assert_eq!(answer.reason, Some(Reason::PolicyDenied));
    let message = answer.message;
    assert!(
        message.contains("\"x/no\"") && message.contains("train:1"),
        "{message}"
    );
}

#[test]
fn who_asks_is_who_makes_the_request_whatever_the_stamp_says() {
    let text = "@id(\"ada\") forbid(principal, action == Trellis::Action::\"Submit\", resource) \
                unless { context has requester && context.requester.user == \"ada\" };";
    let by = judge(&[policy("x", text, "Deny")]);
    let mut stamped = job(json!({}));
    let stamp = json!({"trellis.dev/requested-by": "{\"user\": \"ada\", \"groups\": []}"});
    stamped["metadata"]["annotations"] = stamp;
    let of = |user: &str| {
        let judged = by.judge(asks("TrainingJob", user, stamped.clone(), Value::Null));
        judged.answer.decision
    };
    assert_eq!(of("ada"), Decision::Allowed);
    assert_eq!(of("bob"), Decision::Refused);
}

#[test]
fn what_a_warn_policy_would_deny_is_a_warning_and_what_an_audit_policy_would_is_none() {
    let by = judge(&[
        policy("w", NO_IMAGE, "Warn"),
        policy("a", NO_IMAGE, "Audit"),
    ]);
    let answer = submits(&by, json!({}));
    assert_eq!(answer.decision, Decision::Allowed);
    assert_eq!(answer.warnings.len(), 1);
    let warning = &answer.warnings[0];
    assert!(warning.contains("\"w/no\" is to forbid"), "{warning}");
}

#[test]
fn what_only_makes_it_wait_passes_with_a_warning() {
    let by = judge(&[]);
    let answer = submits(&by, json!({"queueName": "nope"}));
    assert_eq!(answer.decision, Decision::Undecided);
    let warning = &answer.warnings[0];
    assert!(
        warning.starts_with("QueueNotFound: spec.queueName: queue \"nope\""),
        "{warning}"
    );
    // A policy that overflows.
    let text =
        "forbid(principal, action, resource) when { context.gpus * 9223372036854775807 < 0 };";
    let answer = submits(&judge(&[policy("x", text, "Deny")]), json!({}));
    assert_eq!(answer.decision, Decision::Undecided);
    assert!(
        answer.warnings[0].starts_with("PolicyNotEvaluated: "),
        "{answer:?}"
    );
}

#[test]
fn what_is_not_known_refuses_nobody() {
    let by = judge(&[policy("x", NO_IMAGE, "Deny")]);
    let mut elsewhere = asks("TrainingJob", "ada", job(json!({})), Value::Null);
    elsewhere.namespace = Some("new".to_owned());
    let answer = by.judge(elsewhere).answer;
    assert_eq!(answer.decision, Decision::Undecided);
    assert!(
        answer.warnings[0].contains("\"new\" has not been seen yet"),
        "{answer:?}"
    );
    let unread = Judge {
        context: Context::new().0,
        policies: None,
        ..by
    };
    let answer = submits(&unread, json!({}));
    assert!(
        answer.warnings[0].contains("has not been read yet"),
        "{answer:?}"
    );
    // Policies are looked at by their own text, whatever else is known.
    let broken = policy("x", "permit(", "Deny");
    let asked = asks("ClusterJobPolicy", "ada", broken, Value::Null);
    assert_eq!(unread.judge(asked).answer.decision, Decision::Refused);
}

#[test]
fn an_invalid_spec_is_refused_with_every_field() {
    let judged = judge(&[]).judge(asks(
        "TrainingJob",
        "ada",
        job(json!({"restart": {"limit": -1}, "suspend": true})),
        Value::Null,
    ));
    assert!(!judged.may_be_behind);
    assert_eq!(judged.answer.reason, Some(Reason::InvalidSpec));
    assert!(
        judged.answer.message.contains("spec.restart.limit"),
        "{judged:?}"
    );
    let wrong = json!({"metadata": {"name": "j"}, "apiVersion": "trellis.dev/v1alpha1",
        "kind": "TrainingJob", "spec": {"taskGroups": 1}});
    let judged = judge(&[]).judge(asks("TrainingJob", "ada", wrong, Value::Null));
    assert!(
        judged
            .answer
            .message
            .starts_with("the object does not decode"),
        "{judged:?}"
    );
}

#[test]
fn what_runs_is_suspended_or_has_ended_is_not_refused() {
    let by = judge(&[policy("x", NO_IMAGE, "Deny")]);
    let changed = |phase: Value, more: Value| {
        let (mut before, mut now) = (job(json!({})), job(more));
        before["status"] = phase.clone();
        now["status"] = phase;
        by.judge(asks("TrainingJob", "ada", now, before)).answer
    };
    let more = || json!({"restart": {"limit": 5}});
    let refused = changed(json!({"phase": "Refused"}), more());
    assert_eq!(refused.decision, Decision::Refused);
    let runs = changed(json!({"phase": "Running"}), more());
    assert_eq!(runs.decision, Decision::Undecided);
    assert!(runs.warnings[0].starts_with("PolicyDenied: "), "{runs:?}");
    let stops = changed(json!({"phase": "Running"}), json!({"suspend": true}));
    assert_eq!(stops.decision, Decision::Undecided);
    let ended = json!({"phase": "Complete", "completionTime": "2026-01-01T00:00:00Z"});
    assert_eq!(changed(ended, more()), Answer::allowed(Vec::new()));
    // The spec does not change.
    let same = changed(json!({"phase": "Refused"}), json!({}));
    assert_eq!(same, Answer::passed());
}
