//! Quota policies, and jobs that exceed them.

use trellis_gang::key::Key;
use trellis_gang::quota::LimitsReport;
use trellis_policies::quota::{LimitHolder, LimitId, LimitedQuantity};

use super::*;

fn quota(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec,
    })
}

#[test]
fn invalid_quota_policy_is_refused_with_its_status_message() {
    let judge = judge_with(&[]);
    let of = |spec: Value| {
        let judged = judge.judge(review_request(
            "QuotaPolicy",
            "ada",
            quota("q", spec),
            Value::Null,
        ));
        assert!(!judged.may_be_behind);
        judged.answer
    };
    let limits = json!({"runningJobs": 1});
    // The CRD's rules do not check selectors.
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
        assert_eq!(answer.decision, ReviewDecision::Refused);
        assert_eq!(answer.reason, Some(Reason::InvalidSpec));
        let message = answer.message;
        let first = "the limits do not take effect, and until they do no job starts: ";
        assert!(
            message.starts_with(first) && message.contains(words),
            "{message}"
        );
    }
    let valid = of(json!({"subject": {}, "limits": limits}));
    assert_eq!(valid, ReviewAnswer::allowed(Vec::new()));
}

#[test]
fn quota_policy_refuses_a_job_without_room() {
    let judge = judge_with(&[]);
    let add = |name: &str, spec: Value| {
        let policy = serde_json::from_value(quota(name, spec)).unwrap();
        judge
            .context
            .cache
            .quotas
            .objects
            .insert_observed(Key::new("", name), policy);
        judge.context.cache.quotas.invalidate();
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
    assert_eq!(submit(&judge, json!({})), ReviewAnswer::allowed(Vec::new()));
    let stands = |used: i128| {
        let limit = LimitId {
            policy: "full".to_owned(),
            holder: LimitHolder::Subject,
            quantity: LimitedQuantity::RunningJobs,
        };
        let two = trellis_api::quantity::Amount::from_units(2);
        let lines = [(limit, (used, two))].into();
        let report = LimitsReport {
            usage: lines,
            ..LimitsReport::default()
        };
        judge.context.cache.quotas.set_report(Arc::new(report));
    };
    stands(1);
    assert_eq!(submit(&judge, json!({})), ReviewAnswer::allowed(Vec::new()));
    stands(2);
    let judged = judge.judge(review_request(
        "TrainingJob",
        "ada",
        job(json!({})),
        Value::Null,
    ));
    assert!(judged.may_be_behind);
    assert_eq!(judged.answer.decision, ReviewDecision::Refused);
    assert_eq!(judged.answer.reason, Some(Reason::QuotaPolicyExceeded));
    let message = judged.answer.message;
    assert!(
        message.contains("quota policy \"full\", runningJobs: needs 1, 2 of 2 are held"),
        "{message}"
    );
    // A suspended job, and a job that exists already.
    let suspended = submit(&judge, json!({"suspend": true}));
    assert_eq!(suspended.decision, ReviewDecision::Allowed);
    let mut now = job(json!({"restart": {"limit": 5}}));
    now["status"] = json!({"phase": "Queued"});
    let changed = judge.judge(review_request("TrainingJob", "ada", now, job(json!({}))));
    assert_eq!(changed.answer.decision, ReviewDecision::Allowed);
    // The webhook refuses a request above a per-job limit even if no usage is known.
    add("tiny", json!({"subject": {}, "limits": {"gpusPerJob": 4}}));
    let answer = submit(&judge, json!({}));
    assert_eq!(answer.reason, Some(Reason::QuotaPolicyExceeded));
    assert!(
        answer
            .message
            .contains("the job has 8 GPUs, and gpusPerJob is 4"),
        "{}",
        answer.message
    );
}
