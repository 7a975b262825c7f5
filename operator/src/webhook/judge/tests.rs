use serde_json::{Value, json};
use trellis_api::Reason;
use trellis_policies::cedar::Policies;

use super::*;
use crate::key::Key;
use crate::policy::starter;
use crate::scheduling::fixtures::spec_with;
use crate::webhook::answer::Decision;
use crate::webhook::fixtures;

/// One namespace, `ns`, with a default queue, and these policies beside the starter set.
fn judge(policies: &[Value]) -> Judge {
    let world = fixtures::world();
    let loader = Loader::new().unwrap();
    world.policies.replace(Arc::new(load(&loader, policies)));
    Judge {
        world,
        loader,
        settings: Arc::default(),
    }
}

fn load(loader: &Loader, policies: &[Value]) -> Policies {
    let mut objects = starter::objects();
    objects.extend(policies.iter().map(|policy| {
        let policy: ClusterAuthorizationPolicy = serde_json::from_value(policy.clone()).unwrap();
        trellis_policies::cedar::PolicyObject::from(&policy)
    }));
    loader.load(None, objects).0
}

fn policy(name: &str, cedar: &str, enforcement: &str) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterAuthorizationPolicy",
        "metadata": {"name": name}, "spec": {"cedar": cedar, "enforcement": enforcement},
    })
}

fn job(more: Value) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "j", "uid": "u"}, "spec": spec_with(more),
    })
}

fn asks(kind: &str, user: &str, now: Value, before: Value) -> Request {
    let operation = if before.is_null() { "CREATE" } else { "UPDATE" };
    let named = now["metadata"]["name"].clone();
    let request = json!({
        "uid": "u", "operation": operation, "userInfo": {"username": user, "groups": ["ml"]},
        "kind": {"group": "trellis.dev", "version": "v1alpha1", "kind": kind},
        "resource": {"group": "trellis.dev", "version": "v1alpha1", "resource": "x"},
        "name": named, "namespace": "ns", "object": now, "oldObject": before,
    });
    serde_json::from_value(request).unwrap()
}

fn submits(by: &Judge, more: Value) -> Answer {
    by.judge(asks("TrainingJob", "ada", job(more), Value::Null))
        .answer
}

const NO_IMAGE: &str =
    "@id(\"no\") forbid(principal, action == Trellis::Action::\"UseImage\", resource);";

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
    let answer = submits(&by, json!({"queue": "nope"}));
    assert_eq!(answer.decision, Decision::Undecided);
    let warning = &answer.warnings[0];
    assert!(
        warning.starts_with("QueueNotFound: spec.queue: queue \"nope\""),
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
        world: World::new().0,
        ..by
    };
    let answer = submits(&unread, json!({}));
    assert!(
        answer.warnings[0].contains("has not been read yet"),
        "{answer:?}"
    );
    // Policies are looked at by their own text, whatever else is known.
    let broken = policy("x", "permit(", "Deny");
    let asked = asks("ClusterAuthorizationPolicy", "ada", broken, Value::Null);
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
    // Nothing of the spec changes.
    let same = changed(json!({"phase": "Refused"}), json!({}));
    assert_eq!(same, Answer::passed());
}

#[test]
fn a_policy_that_would_not_take_effect_is_refused_with_line_and_caret() {
    let by = judge(&[]);
    let of = |kind: &str, policy: Value| by.judge(asks(kind, "ada", policy, Value::Null)).answer;
    let text = "permit(principal, action, resource)\nwhen { context.gpu > 8 };";
    for kind in ["ClusterAuthorizationPolicy", "AuthorizationPolicy"] {
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
    let message = of("ClusterAuthorizationPolicy", fails).message;
    assert!(
        message.contains("spec.tests[0]: the test \"t\" fails"),
        "{message}"
    );
    let good = of("ClusterAuthorizationPolicy", policy("x", NO_IMAGE, "Deny"));
    assert_eq!(good, Answer::allowed(Vec::new()));
}

fn quota(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec,
    })
}

#[test]
fn a_quota_policy_that_would_not_take_effect_is_refused_in_the_words_of_its_status() {
    let by = judge(&[]);
    let of = |spec: Value| {
        let judged = by.judge(asks("QuotaPolicy", "ada", quota("q", spec), Value::Null));
        assert!(!judged.may_be_behind);
        judged.answer
    };
    let limits = json!({"runningJobs": 1});
    // No rule of the CRD sees into a selector.
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]});
    let subject = json!({"namespaceSelector": selector});
    for (spec, words) in [
        (
            json!({"subject": subject, "limits": limits}),
            "spec.subject.namespaceSelector is not a selector",
        ),
        (json!({"subject": {}, "limits": {}}), "at least one limit"),
        (
            json!({"subject": {}, "limits": limits, "more": 1}),
            "it cannot be read: ",
        ),
    ] {
        let answer = of(spec);
        assert_eq!(answer.decision, Decision::Refused);
        assert_eq!(answer.reason, Some(Reason::InvalidSpec));
        let message = answer.message;
        let first = "the limits do not take effect, and until they do no job starts: ";
        assert!(
            message.starts_with(first) && message.contains(words),
            "{message}"
        );
    }
    let good = of(json!({"subject": {}, "limits": limits}));
    assert_eq!(good, Answer::allowed(Vec::new()));
}

#[test]
fn a_profile_that_no_job_can_be_compiled_with_is_refused_with_the_path() {
    let by = judge(&[]);
    let profile = |name: &str, spec: Value| {
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
            "metadata": {"name": name, "uid": name}, "spec": spec,
        })
    };
    let of = |object: Value| {
        let judged = by.judge(asks("RuntimeProfile", "ada", object, Value::Null));
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
    assert_eq!(of(default("p")), Answer::allowed(Vec::new()));
    let known: RuntimeProfile = serde_json::from_value(default("p")).unwrap();
    by.world.profiles.take("p", known.into());
    assert_eq!(
        of(default("p")),
        Answer::allowed(Vec::new()),
        "it is the one"
    );
    let second = of(default("q"));
    assert_eq!(second.decision, Decision::Allowed);
    let warning = &second.warnings[0];
    assert!(
        warning.starts_with("ProfileMisconfigured: ") && warning.contains("\"p\", \"q\""),
        "{warning}"
    );
}

#[test]
fn a_quota_policy_refuses_what_it_never_lets_run_and_where_the_ledger_is_known_what_has_no_room() {
    use crate::quota::LimitsReport;
    use trellis_policies::quota::{Holder, LimitId, What};
    let by = judge(&[]);
    let add = |name: &str, spec: Value| {
        let policy = serde_json::from_value(quota(name, spec)).unwrap();
        by.world.quotas.objects.observed(Key::new("", name), policy);
        by.world.quotas.changed();
    };
    add(
        "small",
        json!({"subject": {"queue": "other"}, "limits": {"gpusPerJob": 1}}),
    );
    add(
        "full",
        json!({"subject": {}, "limits": {"runningJobs": 2}, "enforcement": "Deny"}),
    );
    // Who does not lead has no account.
    assert_eq!(submits(&by, json!({})), Answer::allowed(Vec::new()));
    let stands = |used: i128| {
        let limit = LimitId {
            policy: "full".to_owned(),
            holder: Holder::Subject,
            what: What::RunningJobs,
        };
        let two = trellis_api::quantity::Amount::from_units(2);
        let lines = [(limit, (used, two))].into();
        let report = LimitsReport {
            lines,
            ..LimitsReport::default()
        };
        by.world.quotas.stand(Arc::new(report));
    };
    stands(1);
    assert_eq!(submits(&by, json!({})), Answer::allowed(Vec::new()));
    stands(2);
    let judged = by.judge(asks("TrainingJob", "ada", job(json!({})), Value::Null));
    assert!(judged.may_be_behind);
    assert_eq!(judged.answer.decision, Decision::Refused);
    assert_eq!(judged.answer.reason, Some(Reason::QuotaPolicyExceeded));
    let message = judged.answer.message;
    assert!(
        message.contains("quota policy \"full\", runningJobs: needs 1, 2 of 2 are held"),
        "{message}"
    );
    // One that is not to start, and one that is there already.
    let suspended = submits(&by, json!({"suspend": true}));
    assert_eq!(suspended.decision, Decision::Allowed);
    let mut now = job(json!({"restart": {"limit": 5}}));
    now["status"] = json!({"phase": "Queued"});
    let changed = by.judge(asks("TrainingJob", "ada", now, job(json!({}))));
    assert_eq!(changed.answer.decision, Decision::Allowed);
    // What it could never have is known without any account.
    add("tiny", json!({"subject": {}, "limits": {"gpusPerJob": 4}}));
    let answer = submits(&by, json!({}));
    assert_eq!(answer.reason, Some(Reason::QuotaPolicyExceeded));
    assert!(
        answer
            .message
            .contains("the job has 8 GPUs, and gpusPerJob is 4"),
        "{}",
        answer.message
    );
}

#[test]
fn other_kinds_pass() {
    let by = judge(&[]);
    let answer = by
        .judge(asks("Queue", "ada", job(json!({})), Value::Null))
        .answer;
    assert_eq!(answer, Answer::passed());
}
