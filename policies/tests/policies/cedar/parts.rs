//! The policies of the cluster and of each namespace are loaded separately, and a namespace's
//! policies are bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trellis_api::Enforcement;
use trellis_policies::cedar::{
    ImageReference, MAX_NAMESPACE_OBJECTS, MAX_NAMESPACE_POLICIES, MAX_NAMESPACE_STEPS, MAX_TEXT,
    Policies, PolicyObject, PolicyObjectState, PolicyRequest, RequestDecision, RequestVerdict,
    UndecidedReason,
};

use super::support::{
    ALLOW_ALL, RequestFixture, cluster, decide, enforced, load_problems, loader, namespaced,
    queue_request, set,
};

const FORBID_ALL: &str = "forbid(principal, action, resource);";
/// Forbids nothing that a test asks for.
const FORBID_FLAVORS: &str =
    "forbid(principal, action == Trellis::Action::\"UseFlavor\", resource);";

fn objects(count: usize, cedar: &str) -> Vec<PolicyObject> {
    let object = |i| namespaced("ml", &format!("o{i}"), cedar);
    (0..count).map(object).collect()
}

fn policies_with_namespace(own: Vec<PolicyObject>) -> Policies {
    let part = loader().load_part(None, Some("ml"), own);
    set(vec![cluster("all", ALLOW_ALL)]).with_part(part)
}

fn undecided_message(decision: &RequestDecision) -> String {
    match &decision.verdict {
        RequestVerdict::Undecided(UndecidedReason::BoundExceeded(why)) => why.clone(),
        other => panic!("{other:?}"),
    }
}

/// For each bound: objects just within it, objects just beyond it, and the message.
fn bounds() -> [(Vec<PolicyObject>, Vec<PolicyObject>, String); 3] {
    let many = |policies: usize| {
        let mut left = policies;
        let objects = (0..MAX_NAMESPACE_OBJECTS).map(|i| {
            let of_this = left.div_ceil(MAX_NAMESPACE_OBJECTS - i);
            left -= of_this;
            namespaced("ml", &format!("o{i}"), &FORBID_FLAVORS.repeat(of_this))
        });
        objects.collect::<Vec<_>>()
    };
    let pattern = "a".repeat(MAX_TEXT / 2);
    let like = format!(
        "forbid(principal, action == Trellis::Action::\"UseFlavor\", resource) when {{ resource.name like \"*{pattern}\" }};"
    );
    let patterns = MAX_NAMESPACE_STEPS / (MAX_TEXT * MAX_TEXT / 2);
    let slow = |count: usize| vec![namespaced("ml", "slow", &like.repeat(count))];
    [
        (
            objects(MAX_NAMESPACE_OBJECTS, FORBID_FLAVORS),
            objects(MAX_NAMESPACE_OBJECTS + 1, FORBID_FLAVORS),
            "the namespace has 17 JobPolicies, and at most 16 are evaluated".to_owned(),
        ),
        (
            many(MAX_NAMESPACE_POLICIES),
            many(MAX_NAMESPACE_POLICIES + 1),
            "have 257 policies together, and at most 256 are evaluated".to_owned(),
        ),
        (
            slow(patterns - 1),
            slow(patterns),
            format!("steps a request together, and at most {MAX_NAMESPACE_STEPS} are evaluated"),
        ),
    ]
}

#[test]
fn namespace_beyond_a_bound_is_denied_while_other_namespaces_continue() {
    for (within, beyond, said) in bounds() {
        let policies = policies_with_namespace(within);
        assert!(
            decide(&policies, "ml", &queue_request("q")).is_allowed(),
            "{said}"
        );
        let policies = policies_with_namespace(beyond);
        let decision = decide(&policies, "ml", &queue_request("q"));
        assert!(
            undecided_message(&decision).contains(&said),
            "{}",
            undecided_message(&decision)
        );
        for verdict in policies.load_results_in(Some("ml")) {
            assert_eq!(verdict.state, PolicyObjectState::Invalid);
            assert!(verdict.policy_ids.is_empty());
            let [problem] = verdict.problems.as_slice() else {
                panic!("{verdict:?}");
            };
            let problem = problem.to_string();
            assert!(problem.contains(&said), "{problem}");
            assert!(
                problem.contains("no job of the namespace starts"),
                "{problem}"
            );
        }
        assert!(
            decide(&policies, "ops", &queue_request("q")).is_allowed(),
            "{said}"
        );
    }
}

#[test]
fn cluster_forbid_decides_in_a_namespace_beyond_a_bound() {
    let (_, beyond, _) = bounds().into_iter().next().unwrap();
    let part = loader().load_part(None, Some("ml"), beyond);
    let policies = set(vec![cluster("all", ALLOW_ALL), cluster("no", FORBID_ALL)]).with_part(part);
    assert_eq!(
        decide(&policies, "ml", &queue_request("q")).verdict,
        RequestVerdict::Forbidden
    );
}

#[test]
fn audit_objects_beyond_a_bound_block_no_job() {
    let audit = objects(MAX_NAMESPACE_OBJECTS + 1, FORBID_ALL);
    let audit = audit.into_iter().map(|o| enforced(Enforcement::Audit, o));
    let policies = policies_with_namespace(audit.collect());
    assert!(decide(&policies, "ml", &queue_request("q")).is_allowed());
}

#[test]
fn namespace_decides_by_its_policies_after_returning_within_bounds() {
    let before = policies_with_namespace(objects(MAX_NAMESPACE_OBJECTS, FORBID_ALL));
    assert_eq!(
        decide(&before, "ml", &queue_request("q")).verdict,
        RequestVerdict::Forbidden
    );
    let part = loader().load_part(
        Some(&before),
        Some("ml"),
        objects(MAX_NAMESPACE_OBJECTS + 1, FORBID_ALL),
    );
    let beyond = before.with_part(part);
    assert_ne!(before.version("ml"), beyond.version("ml"));
    assert_eq!(before.version("ops"), beyond.version("ops"));
    undecided_message(&decide(&beyond, "ml", &queue_request("q")));
    let part = loader().load_part(
        Some(&beyond),
        Some("ml"),
        objects(MAX_NAMESPACE_OBJECTS, FORBID_ALL),
    );
    let mended = beyond.with_part(part);
    assert_eq!(mended.version("ml"), before.version("ml"));
    assert_eq!(
        decide(&mended, "ml", &queue_request("q")).verdict,
        RequestVerdict::Forbidden
    );
    // One that came while it was beyond the bound is compiled.
    let changed = loader().load_part(Some(&beyond), Some("ml"), objects(1, "forbid("));
    let states: Vec<_> = before
        .with_part(changed)
        .load_results_in(Some("ml"))
        .map(|v| v.state)
        .collect();
    assert_eq!(states, [PolicyObjectState::Degraded]);
    let none = mended.with_part(loader().load_part(Some(&mended), Some("ml"), Vec::new()));
    assert!(decide(&none, "ml", &queue_request("q")).is_allowed());
    assert_eq!(none.hash(), set(vec![cluster("all", ALLOW_ALL)]).hash());
}

/// An author learns of an exceeded bound when applying a single object.
#[test]
fn object_beyond_a_bound_alone_reports_the_bound() {
    let [_, _, (_, beyond, said)] = bounds();
    for object in beyond {
        assert!(load_problems(object.clone()).contains(&said));
        // Policies of the cluster are bounded only per object.
        assert_eq!(load_problems(cluster("slow", &object.cedar)), "");
    }
}

#[test]
fn namespace_is_undecided_until_its_policies_are_loaded() {
    let all = loader().load_part(None, None, vec![cluster("all", ALLOW_ALL)]);
    let begun = loader().load_cluster_first(all, ["ml".to_owned()]);
    assert!(!begun.is_loaded("ml") && begun.is_loaded("ops"));
    let decision = decide(&begun, "ml", &queue_request("q"));
    assert_eq!(
        decision.verdict,
        RequestVerdict::Undecided(UndecidedReason::NotSynced)
    );
    assert!(decide(&begun, "ops", &queue_request("q")).is_allowed());
    // A policy of the cluster takes effect in all other namespaces while one is awaited.
    let no = loader().load_part(Some(&begun), None, vec![cluster("no", FORBID_ALL)]);
    let forbidden = begun.with_part(no);
    assert_eq!(
        decide(&forbidden, "ops", &queue_request("q")).verdict,
        RequestVerdict::Forbidden
    );
    assert!(!forbidden.is_loaded("ml"));
    let own = loader().load_part(
        Some(&begun),
        Some("ml"),
        vec![namespaced("ml", "x", FORBID_FLAVORS)],
    );
    let loaded = begun.with_part(own);
    assert!(decide(&loaded, "ml", &queue_request("q")).is_allowed());
    assert_ne!(begun.version("ml"), loaded.version("ml"));
    let whole = set(vec![
        cluster("all", ALLOW_ALL),
        namespaced("ml", "x", FORBID_FLAVORS),
    ]);
    assert_eq!(loaded.hash(), whole.hash());
}

#[test]
fn request_with_overlong_text_is_undecided() {
    let policies = set(vec![cluster("all", ALLOW_ALL)]);
    let image = |length| PolicyRequest::UseImage(ImageReference("é".repeat(length)));
    assert!(decide(&policies, "ml", &image(MAX_TEXT)).is_allowed());
    let long = decide(&policies, "ml", &image(MAX_TEXT + 1));
    let why = long.undecided_message().unwrap();
    assert!(why.contains("has more than 1024 characters"), "{why}");
}

#[test]
fn pause_comes_before_each_request() {
    let pauses = Arc::new(AtomicUsize::new(0));
    let count = pauses.clone();
    let policies = set(vec![cluster("all", ALLOW_ALL)]);
    let paced = policies.with_pause(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(paced.version("ml"), policies.version("ml"));
    for n in 1..4 {
        let decision = RequestFixture::default().decide_once(&paced, "ml", &queue_request("q"));
        assert_eq!(decision, decide(&policies, "ml", &queue_request("q")));
        assert_eq!(pauses.load(Ordering::Relaxed), n);
    }
}
