//! Subjects of quota policies: which jobs a limit counts, and per whom.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trellis_api::QueueSpec;
use trellis_policies::quota::{LimitHolder, QueueQuota, QuotaPolicies};

use super::{QuotaJob, policy};

#[test]
fn quota_policy_counts_jobs_that_match_every_subject_field() {
    let job = QuotaJob::new();
    let limits = json!({"runningJobs": 1});
    let counts = |subject: Value| {
        let verdict = job.evaluate(&json!({"subject": subject, "limits": limits}));
        !verdict.draws.is_empty()
    };
    for (subject, expected) in [
        (json!({}), true),
        (json!({"namespaceSelector": {}}), true),
        (
            json!({"namespaceSelector": {"matchLabels": {"trellis.dev/team": "vision"}}}),
            true,
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"trellis.dev/team": "speech"}}}),
            false,
        ),
        (json!({"team": "vision"}), true),
        (json!({"team": "speech"}), false),
        (json!({"queueName": "research"}), true),
        (json!({"queueName": "other"}), false),
        (json!({"serviceAccountName": "default"}), true),
        (json!({"serviceAccountName": "trainer"}), false),
        (json!({"requester": "alice"}), true),
        (json!({"requester": "bob"}), false),
        (
            json!({"team": "vision", "queueName": "research", "requester": "alice"}),
            true,
        ),
        (
            json!({"team": "vision", "queueName": "research", "requester": "bob"}),
            false,
        ),
    ] {
        assert_eq!(counts(subject.clone()), expected, "{subject}");
    }
    let mut unknown = QuotaJob::new();
    unknown.requester = None;
    let verdict = unknown.evaluate(&json!({"subject": {"requester": "alice"}, "limits": limits}));
    assert_eq!(verdict.draws.len(), 1, "nobody knows that it is not hers");
}

/// As a limit of an account of Slurm, or of a queue of Volcano, holds for all below it.
#[test]
fn job_counts_against_the_policies_of_its_ancestor_queues() {
    let job = QuotaJob::new();
    let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let pairs = pairs.iter().map(|(a, b)| (a.to_string(), b.to_string()));
        pairs.collect()
    };
    let below = pairs(&[("research", "ml"), ("ml", "all"), ("other", "all")]);
    let spec = |queue: &str| json!({"subject": {"queueName": queue}, "limits": {"gpusPerJob": 8}});
    let denied = |queue: &str, parents: &BTreeMap<String, String>| {
        let policies = QuotaPolicies::load([&policy("p", &spec(queue))], []);
        let policies = policies.with_queues(queues_with_parents(parents));
        !policies.evaluate(&job.as_request()).refusals.is_empty()
    };
    for (queue, expected) in [
        ("research", true),
        ("ml", true),
        ("all", true),
        ("other", false),
    ] {
        assert_eq!(denied(queue, &below), expected, "{queue}");
    }
    assert!(!denied("ml", &pairs(&[])));
    // Parents that go round are met once, as their queues start nothing.
    let round = pairs(&[("research", "ml"), ("ml", "research")]);
    assert!(denied("ml", &round) && !denied("all", &round));
}

fn queues_with_parents(parents: &BTreeMap<String, String>) -> BTreeMap<String, QueueQuota> {
    let quota = |parent: &String| {
        let spec = json!({"parentName": parent});
        QueueQuota::from(&serde_json::from_value::<QueueSpec>(spec).unwrap())
    };
    let all = parents.iter();
    all.map(|(name, parent)| (name.clone(), quota(parent)))
        .collect()
}

#[test]
fn limit_counts_per_subject_or_per_user() {
    let holder = |each: &str, requester| {
        let mut job = QuotaJob::new();
        job.requester = requester;
        let spec = json!({"subject": {}, "each": each, "limits": {"runningJobs": 1}});
        job.evaluate(&spec).draws[0].limit.holder.clone()
    };
    assert_eq!(holder("Subject", Some("alice")), LimitHolder::Subject);
    assert_eq!(
        holder("Requester", Some("alice")),
        LimitHolder::Requester("alice".to_owned())
    );
    assert_eq!(holder("Requester", None), LimitHolder::Unknown);
}
