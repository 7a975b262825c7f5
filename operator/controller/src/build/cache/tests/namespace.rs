//! The namespace of a job. Its watch may lag behind the watch of jobs.

use super::*;

/// Returns policies that permit all jobs except those in namespaces with the label "env: prod".
fn policies_forbidding_prod() -> Arc<Policies> {
    let selector = json!({"matchLabels": {"env": "prod"}});
    let forbid = "forbid(principal, action, resource);";
    let prod = PolicyObject {
        selector: serde_json::from_value(selector).unwrap(),
        ..policy_object(None, "prod", forbid, OnViolation::Report)
    };
    load_policies(vec![
        policy_object(None, "all", ALL, OnViolation::Report),
        prod,
    ])
}

#[test]
fn job_waits_until_the_watch_shows_its_namespace() {
    let mut case = BuildFixture::new(json!({}));
    case.remove_namespace();
    case.context
        .cache
        .policies
        .replace(policies_forbidding_prod());
    let builds = BuildCache::default();
    assert_eq!(case.build(&builds), Err(Reason::CacheNotReady));
    case.namespace(json!({"env": "prod"}));
    assert_eq!(case.build(&builds), Err(Reason::PolicyDenied));
    case.remove_namespace();
    assert_eq!(case.build(&builds), Err(Reason::CacheNotReady));
    case.namespace(json!({}));
    assert_eq!(case.build(&builds), Ok(("default".to_owned(), 0)));
}

#[test]
fn quota_policy_by_namespace_label_applies_to_a_new_namespace() {
    let mut case = BuildFixture::new(json!({}));
    case.remove_namespace();
    let subject = json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}});
    let spec = json!({"subject": subject, "limits": {"gpusPerJob": 1}});
    case.limit("prod", spec);
    let builds = BuildCache::default();
    assert_eq!(case.build(&builds), Err(Reason::CacheNotReady));
    case.namespace(json!({"env": "prod"}));
    assert_eq!(case.build(&builds), Err(Reason::QuotaPolicyExceeded));
}

/// The labels of the namespace select the limits, so the earlier limits stay.
#[test]
fn limits_of_a_placed_job_stay_while_its_namespace_is_not_shown() {
    let mut case = BuildFixture::new(json!({}));
    case.add_plan(PodGroupPhase::Placed);
    assert!(build::limits_of_place(&case.read_context()).is_some());
    case.remove_namespace();
    assert!(build::limits_of_place(&case.read_context()).is_none());
}
