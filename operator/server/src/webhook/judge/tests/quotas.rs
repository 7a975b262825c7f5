//! Quota policies, and jobs that go beyond them.

use trellis_gang::key::Key;
use trellis_gang::quota::LimitsReport;
use trellis_policies::quota::{Holder, LimitId, What};

use super::*;

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
fn a_quota_policy_refuses_what_it_never_lets_run_and_where_the_ledger_is_known_what_has_no_room() {
    let by = judge(&[]);
    let add = |name: &str, spec: Value| {
        let policy = serde_json::from_value(quota(name, spec)).unwrap();
        by.context
            .cache
            .quotas
            .objects
            .observed(Key::new("", name), policy);
        by.context.cache.quotas.changed();
    };
    add(
        "small",
        json!({"subject": {"queueName": "other"}, "limits": {"gpusPerJob": 1}}),
    );
    add(
        "full",
        json!({"subject": {}, "limits": {"runningJobs": 2}, "enforcement": "Deny"}),
    );
    // A standby replica has no usage to compare with.
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
        by.context.cache.quotas.stand(Arc::new(report));
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
    // A request above a limit per job is refused without any usage.
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
