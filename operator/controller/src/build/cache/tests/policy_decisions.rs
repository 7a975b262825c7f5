//! Decisions of the policies, and the changes that cause a new decision.

use super::*;

const NONE: &str = "forbid(principal, action, resource);";

/// Only a change of an input of the decision causes a new decision.
#[test]
fn job_is_judged_again_when_its_policies_change() {
    let case = BuildFixture::new(json!({}));
    let builds = BuildCache::default();
    let build_with = |objects: &[(Option<&str>, &str)]| {
        case.context
            .cache
            .policies
            .replace(reporting_policies(objects));
        builds.get_or_build(&key(), &mut case.read_context(), &Arc::default())
    };
    let reason = |build: &JobBuild| match &build.result {
        Err(hold) => Some((hold.phase, hold.reason)),
        Ok(_) => None,
    };
    let allowed = build_with(&[(None, ALL)]);
    assert_eq!(reason(&allowed), None);
    let verdict = &allowed.policy.as_ref().unwrap().verdict;
    assert_eq!(verdict.decision, Some(PolicyDecision::Allowed));
    // Policies of another namespace leave the build as it is.
    assert!(Arc::ptr_eq(
        &allowed,
        &build_with(&[(None, ALL), (Some("other"), NONE)])
    ));
    let job = allowed.result.as_ref().unwrap();
    assert!(case.context.cache.policies.still_allows(job));
    let denied = build_with(&[(None, ALL), (Some("ns"), NONE)]);
    let refused = Some((JobPhase::Refused, Reason::PolicyDenied));
    assert_eq!(reason(&denied), refused);
    assert!(!case.context.cache.policies.still_allows(job));
    let overflow =
        "forbid(principal, action, resource) when { context.gpus * 9223372036854775807 > 8 };";
    let undecided = build_with(&[(None, ALL), (None, overflow)]);
    let waiting = Some((JobPhase::Waiting, Reason::PolicyNotEvaluated));
    assert_eq!(reason(&undecided), waiting);
    assert_eq!(reason(&build_with(&[])), refused);
    assert_eq!(reason(&build_with(&[(None, ALL)])), None);
}

/// The check of the whole job comes after the decision of the policies.
#[test]
fn host_network_port_conflict_is_refused_once_policies_allow_it() {
    let group = json!([{"name": "w", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "podTemplate": {"spec": {"hostNetwork": true}}}]);
    let case = BuildFixture::new(json!({"framework": "PyTorch", "taskGroups": group}));
    assert_eq!(
        case.build(&BuildCache::default()),
        Err(Reason::PolicyDenied)
    );
    case.context
        .cache
        .policies
        .replace(reporting_policies(&[(None, ALL)]));
    let build =
        BuildCache::default().get_or_build(&key(), &mut case.read_context(), &Arc::default());
    let Err(JobHold {
        phase,
        reason,
        message,
    }) = &build.result
    else {
        panic!("the job is built");
    };
    assert_eq!(
        (*phase, *reason),
        (JobPhase::Refused, Reason::ConstraintNotSupported)
    );
    assert!(
        message.contains("their port 29500 is one of the node's"),
        "{message}"
    );
}

#[test]
fn job_is_not_built_before_policies_are_read() {
    let mut case = BuildFixture::new(json!({}));
    case.context = Context::new().0;
    let job = BuildFixture::new(json!({}))
        .context
        .cache
        .jobs
        .get(&key())
        .unwrap();
    case.context
        .cache
        .jobs
        .insert_observed(key(), (*job).clone());
    case.queue("default", json!({}));
    assert_eq!(
        case.build(&BuildCache::default()),
        Err(Reason::CacheNotReady)
    );
}

#[test]
fn job_is_judged_again_when_labels_requester_or_attempt_change() {
    let case = BuildFixture::new(json!({}));
    let builds = BuildCache::default();
    let text = "permit(principal, action, resource) when { context.attempt < 3 \
        && context.job.hasTag(\"tier\") && context has requester \
        && context.requester.user == \"ada\" };";
    case.context
        .cache
        .policies
        .replace(reporting_policies(&[(None, text)]));
    let version = std::cell::Cell::new(10);
    let is_allowed = |labels: Value, stamp: Value, attempt: i64| {
        version.set(version.get() + 1);
        let mut job = (*case.context.cache.jobs.get(&key()).unwrap()).clone();
        job.metadata.resource_version = Some(version.get().to_string());
        job.metadata.labels = serde_json::from_value(labels).unwrap();
        job.metadata.annotations = Some(
            [(
                trellis_api::names::REQUESTED_BY.to_owned(),
                stamp.to_string(),
            )]
            .into(),
        );
        job.status = Some(serde_json::from_value(json!({"attempt": attempt})).unwrap());
        case.context.cache.jobs.insert_observed(key(), job);
        let build = builds.get_or_build(&key(), &mut case.read_context(), &Arc::default());
        build
            .result
            .as_ref()
            .is_ok_and(|job| job.attempt() == attempt)
    };
    let gold = || json!({"tier": "gold"});
    let ada = || json!({"user": "ada"});
    assert!(is_allowed(gold(), ada(), 1));
    assert!(!is_allowed(json!({}), ada(), 1));
    assert!(is_allowed(gold(), ada(), 2));
    assert!(!is_allowed(gold(), json!({"user": "eve"}), 2));
    assert!(is_allowed(gold(), ada(), 2));
    assert!(!is_allowed(gold(), ada(), 3));
}
