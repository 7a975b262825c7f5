//! Policies and profiles that would not take effect, and requests that pass unjudged.

use super::*;

#[test]
fn invalid_policy_is_refused_with_line_and_caret() {
    let judge = judge_with(&[]);
    let of = |kind: &str, policy: Value| {
        judge
            .judge(review_request(kind, "ada", policy, Value::Null))
            .answer
    };
    let text = "permit(principal, action, resource)\nwhen { context.gpu > 8 };";
    for kind in ["ClusterJobPolicy", "JobPolicy"] {
        let mut wrong = policy("x", text, "Audit");
        wrong["kind"] = json!(kind);
        let answer = of(kind, wrong);
        assert_eq!(answer.reason, Some(Reason::InvalidSpec));
        let message = answer.message;
        assert!(message.starts_with("spec.cedar:2:"), "{message}");
        assert!(
            message.contains("2 | when { context.gpu > 8 };\n  | "),
            "{message}"
        );
        assert!(message.contains('^'), "{message}");
    }
    let mut fails = policy("x", NO_IMAGE, "Deny");
    fails["spec"]["tests"] = json!([{"name": "t", "decision": "Allow",
        "request": {"namespace": "ns", "action": "UseImage", "resource": {"name": "i"}}}]);
    let message = of("ClusterJobPolicy", fails).message;
    assert!(
        message.contains("spec.tests[0]: the test \"t\" fails"),
        "{message}"
    );
    let valid = of("ClusterJobPolicy", policy("x", NO_IMAGE, "Deny"));
    assert_eq!(valid, ReviewAnswer::allowed(Vec::new()));
}

#[test]
fn invalid_profile_is_refused_with_the_path() {
    let judge = judge_with(&[]);
    let profile = |name: &str, spec: Value| {
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
            "metadata": {"name": name, "uid": name}, "spec": spec,
        })
    };
    let of = |object: Value| {
        let judged = judge.judge(review_request("RuntimeProfile", "ada", object, Value::Null));
        assert!(!judged.may_be_behind);
        judged.answer
    };
    let sidecar = json!({"spec": {"initContainers": [{"name": "s", "image": "i"}]}});
    for (spec, words) in [
        (
            json!({"podTemplate": {"spec": {"nodeName": "n"}}}),
            "spec.podTemplate.spec.nodeName: ",
        ),
        (
            json!({"podTemplate": sidecar}),
            "spec.podTemplate.spec.initContainers[0].resources.limits: ",
        ),
        (json!({"unknown": 1}), "the object does not decode"),
    ] {
        let answer = of(profile("p", spec));
        assert_eq!(answer.reason, Some(Reason::InvalidSpec));
        assert!(answer.message.starts_with(words), "{}", answer.message);
    }
    let default = |name: &str| profile(name, json!({"globalDefault": true}));
    assert_eq!(of(default("p")), ReviewAnswer::allowed(Vec::new()));
    let profile: RuntimeProfile = serde_json::from_value(default("p")).unwrap();
    judge.context.cache.profiles.insert("p", profile.into());
    assert_eq!(
        of(default("p")),
        ReviewAnswer::allowed(Vec::new()),
        "it is the one"
    );
    let second = of(default("q"));
    assert_eq!(second.decision, ReviewDecision::Allowed);
    let warning = &second.warnings[0];
    assert!(
        warning.starts_with("ProfileMisconfigured: ") && warning.contains("\"p\", \"q\""),
        "{warning}"
    );
}

#[test]
fn unjudged_kinds_pass() {
    let judge = judge_with(&[]);
    let answer = judge
        .judge(review_request(
            "TrainingQueue",
            "ada",
            job(json!({})),
            Value::Null,
        ))
        .answer;
    assert_eq!(answer, ReviewAnswer::passed());
}
