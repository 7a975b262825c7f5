//! The webhook's answers for jobs match their later status.

use super::*;

#[test]
fn allowed_job_passes_without_warnings() {
    let answer = submit(&judge_with(&[]), json!({}));
    assert_eq!(answer, ReviewAnswer::allowed(Vec::new()));
}

#[test]
fn denied_job_is_refused_with_the_status_message() {
    let judge = judge_with(&[policy("x", NO_IMAGE, "Deny")]);
    let judged = judge.judge(review_request(
        "TrainingJob",
        "ada",
        job(json!({})),
        Value::Null,
    ));
    assert!(judged.may_be_behind);
    let answer = judged.answer;
    assert_eq!(answer.decision, ReviewDecision::Refused);
    assert_eq!(answer.reason, Some(Reason::PolicyDenied));
    let message = answer.message;
    assert!(
        message.contains("\"x/no\"") && message.contains("train:1"),
        "{message}"
    );
}

#[test]
fn requester_is_the_user_of_the_request_not_the_stamp() {
    let text = "@id(\"ada\") forbid(principal, action == Trellis::Action::\"Submit\", resource) \
                unless { context has requester && context.requester.user == \"ada\" };";
    let judge = judge_with(&[policy("x", text, "Deny")]);
    let mut stamped = job(json!({}));
    let stamp = json!({"trellis.dev/requested-by": "{\"user\": \"ada\", \"groups\": []}"});
    stamped["metadata"]["annotations"] = stamp;
    let of = |user: &str| {
        let judged = judge.judge(review_request(
            "TrainingJob",
            user,
            stamped.clone(),
            Value::Null,
        ));
        judged.answer.decision
    };
    assert_eq!(of("ada"), ReviewDecision::Allowed);
    assert_eq!(of("bob"), ReviewDecision::Refused);
}

#[test]
fn warn_policy_adds_a_warning_and_audit_policy_does_not() {
    let judge = judge_with(&[
        policy("w", NO_IMAGE, "Warn"),
        policy("a", NO_IMAGE, "Audit"),
    ]);
    let answer = submit(&judge, json!({}));
    assert_eq!(answer.decision, ReviewDecision::Allowed);
    assert_eq!(answer.warnings.len(), 1);
    let warning = &answer.warnings[0];
    assert!(warning.contains("\"w/no\" is to forbid"), "{warning}");
}

#[test]
fn job_that_will_wait_passes_with_a_warning() {
    let judge = judge_with(&[]);
    let answer = submit(&judge, json!({"queueName": "nope"}));
    assert_eq!(answer.decision, ReviewDecision::Undecided);
    let warning = &answer.warnings[0];
    assert!(
        warning.starts_with("QueueNotFound: spec.queueName: queue \"nope\""),
        "{warning}"
    );
    // The evaluation of this policy overflows.
    let text =
        "forbid(principal, action, resource) when { context.gpus * 9223372036854775807 < 0 };";
    let answer = submit(&judge_with(&[policy("x", text, "Deny")]), json!({}));
    assert_eq!(answer.decision, ReviewDecision::Undecided);
    assert!(
        answer.warnings[0].starts_with("PolicyNotEvaluated: "),
        "{answer:?}"
    );
}

#[test]
fn job_in_an_unread_namespace_is_not_refused() {
    let judge = judge_with(&[policy("x", NO_IMAGE, "Deny")]);
    let mut elsewhere = review_request("TrainingJob", "ada", job(json!({})), Value::Null);
    elsewhere.namespace = Some("new".to_owned());
    let answer = judge.judge(elsewhere).answer;
    assert_eq!(answer.decision, ReviewDecision::Undecided);
    assert!(
        answer.warnings[0].contains("\"new\" has not been seen yet"),
        "{answer:?}"
    );
    let unsynced = Judge {
        context: Context::new().0,
        policies: None,
        ..judge
    };
    let answer = submit(&unsynced, json!({}));
    assert!(
        answer.warnings[0].contains("has not been read yet"),
        "{answer:?}"
    );
    // The webhook checks a policy by its own text alone.
    let broken = policy("x", "permit(", "Deny");
    let request = review_request("ClusterJobPolicy", "ada", broken, Value::Null);
    assert_eq!(
        unsynced.judge(request).answer.decision,
        ReviewDecision::Refused
    );
}

#[test]
fn invalid_spec_is_refused_with_its_fields() {
    let judged = judge_with(&[]).judge(review_request(
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
    let judged = judge_with(&[]).judge(review_request("TrainingJob", "ada", wrong, Value::Null));
    assert!(
        judged
            .answer
            .message
            .starts_with("the object does not decode"),
        "{judged:?}"
    );
}

#[test]
fn running_suspended_or_ended_job_is_not_refused() {
    let judge = judge_with(&[policy("x", NO_IMAGE, "Deny")]);
    let changed = |phase: Value, more: Value| {
        let (mut before, mut now) = (job(json!({})), job(more));
        before["status"] = phase.clone();
        now["status"] = phase;
        judge
            .judge(review_request("TrainingJob", "ada", now, before))
            .answer
    };
    let more = || json!({"restart": {"limit": 5}});
    let refused = changed(json!({"phase": "Refused"}), more());
    assert_eq!(refused.decision, ReviewDecision::Refused);
    let runs = changed(json!({"phase": "Running"}), more());
    assert_eq!(runs.decision, ReviewDecision::Undecided);
    assert!(runs.warnings[0].starts_with("PolicyDenied: "), "{runs:?}");
    let stops = changed(json!({"phase": "Running"}), json!({"suspend": true}));
    assert_eq!(stops.decision, ReviewDecision::Undecided);
    let ended = json!({"phase": "Complete", "completionTime": "2026-01-01T00:00:00Z"});
    assert_eq!(changed(ended, more()), ReviewAnswer::allowed(Vec::new()));
    // The spec does not change.
    let same = changed(json!({"phase": "Refused"}), json!({}));
    assert_eq!(same, ReviewAnswer::passed());
}
