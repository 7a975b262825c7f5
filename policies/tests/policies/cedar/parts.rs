//! The policies of the cluster and of each namespace are loaded separately, and a namespace's
//! policies are bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trellis_api::Enforcement;
use trellis_policies::cedar::{
    Ask, Decision, MAX_TEXT, NAMESPACE_OBJECTS, NAMESPACE_POLICIES, NAMESPACE_STEPS, ObjectState,
    Policies, PolicyObject, Undecided, Verdict,
};

use super::support::{
    ALLOW_ALL, Around, cluster, decide, enforced, loader, namespaced, problems, queue, set,
};

const NONE: &str = "forbid(principal, action, resource);";
/// Forbids nothing that a test asks for.
const OTHER: &str = "forbid(principal, action == Trellis::Action::\"UseFlavor\", resource);";

fn objects(count: usize, cedar: &str) -> Vec<PolicyObject> {
    let object = |i| namespaced("ml", &format!("o{i}"), cedar);
    (0..count).map(object).collect()
}

fn with(own: Vec<PolicyObject>) -> Policies {
    let part = loader().part(None, Some("ml"), own);
    set(vec![cluster("all", ALLOW_ALL)]).with(part)
}

fn why(decision: &Decision) -> String {
    match &decision.verdict {
        Verdict::Undecided(Undecided::Excess(why)) => why.clone(),
        other => panic!("{other:?}"),
    }
}

/// For each bound: objects just within it, objects just beyond it, and the message.
fn bounds() -> [(Vec<PolicyObject>, Vec<PolicyObject>, String); 3] {
    let many = |policies: usize| {
        let mut left = policies;
        let objects = (0..NAMESPACE_OBJECTS).map(|i| {
            let of_this = left.div_ceil(NAMESPACE_OBJECTS - i);
            left -= of_this;
            namespaced("ml", &format!("o{i}"), &OTHER.repeat(of_this))
        });
        objects.collect::<Vec<_>>()
    };
    let pattern = "a".repeat(MAX_TEXT / 2);
    let like = format!(
        "forbid(principal, action == Trellis::Action::\"UseFlavor\", resource) when {{ resource.name like \"*{pattern}\" }};"
    );
    let patterns = NAMESPACE_STEPS / (MAX_TEXT * MAX_TEXT / 2);
    let slow = |count: usize| vec![namespaced("ml", "slow", &like.repeat(count))];
    [
        (
            objects(NAMESPACE_OBJECTS, OTHER),
            objects(NAMESPACE_OBJECTS + 1, OTHER),
            "the namespace has 17 JobPolicies, and at most 16 are evaluated".to_owned(),
        ),
        (
            many(NAMESPACE_POLICIES),
            many(NAMESPACE_POLICIES + 1),
            "have 257 policies together, and at most 256 are evaluated".to_owned(),
        ),
        (
            slow(patterns - 1),
            slow(patterns),
            format!("steps a request together, and at most {NAMESPACE_STEPS} are evaluated"),
        ),
    ]
}

#[test]
fn namespace_beyond_a_bound_is_invalid_and_allows_nothing_while_others_go_on() {
    for (within, beyond, said) in bounds() {
        let policies = with(within);
        assert!(decide(&policies, "ml", &queue("q")).allows(), "{said}");
        let policies = with(beyond);
        let decision = decide(&policies, "ml", &queue("q"));
        assert!(why(&decision).contains(&said), "{}", why(&decision));
        for verdict in policies.verdicts_of(Some("ml")) {
            assert_eq!(verdict.state, ObjectState::Invalid);
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
        assert!(decide(&policies, "ops", &queue("q")).allows(), "{said}");
    }
}

#[test]
fn forbid_of_the_cluster_is_an_answer_in_a_namespace_beyond_a_bound() {
    let (_, beyond, _) = bounds().into_iter().next().unwrap();
    let part = loader().part(None, Some("ml"), beyond);
    let policies = set(vec![cluster("all", ALLOW_ALL), cluster("no", NONE)]).with(part);
    assert_eq!(
        decide(&policies, "ml", &queue("q")).verdict,
        Verdict::Forbidden
    );
}

#[test]
fn objects_that_do_not_deny_keep_nobody_from_starting_beyond_a_bound() {
    let audit = objects(NAMESPACE_OBJECTS + 1, NONE);
    let audit = audit.into_iter().map(|o| enforced(Enforcement::Audit, o));
    let policies = with(audit.collect());
    assert!(decide(&policies, "ml", &queue("q")).allows());
}

#[test]
fn namespace_that_is_mended_decides_by_what_it_has_then() {
    let before = with(objects(NAMESPACE_OBJECTS, NONE));
    assert_eq!(
        decide(&before, "ml", &queue("q")).verdict,
        Verdict::Forbidden
    );
    let part = loader().part(
        Some(&before),
        Some("ml"),
        objects(NAMESPACE_OBJECTS + 1, NONE),
    );
    let beyond = before.with(part);
    assert_ne!(before.version("ml"), beyond.version("ml"));
    assert_eq!(before.version("ops"), beyond.version("ops"));
    why(&decide(&beyond, "ml", &queue("q")));
    let part = loader().part(Some(&beyond), Some("ml"), objects(NAMESPACE_OBJECTS, NONE));
    let mended = beyond.with(part);
    assert_eq!(mended.version("ml"), before.version("ml"));
    assert_eq!(
        decide(&mended, "ml", &queue("q")).verdict,
        Verdict::Forbidden
    );
    // One that came while it was beyond the bound is compiled.
    let changed = loader().part(Some(&beyond), Some("ml"), objects(1, "forbid("));
    let states: Vec<_> = before
        .with(changed)
        .verdicts_of(Some("ml"))
        .map(|v| v.state)
        .collect();
    assert_eq!(states, [ObjectState::Degraded]);
    let none = mended.with(loader().part(Some(&mended), Some("ml"), Vec::new()));
    assert!(decide(&none, "ml", &queue("q")).allows());
    assert_eq!(none.hash(), set(vec![cluster("all", ALLOW_ALL)]).hash());
}

/// An author learns of an exceeded bound when applying a single object.
#[test]
fn object_that_is_beyond_a_bound_by_itself_says_so() {
    let [_, _, (_, beyond, said)] = bounds();
    for object in beyond {
        assert!(problems(object.clone()).contains(&said));
        // Policies of the cluster are bounded only per object.
        assert_eq!(problems(cluster("slow", &object.cedar)), "");
    }
}

#[test]
fn cluster_decides_before_namespaces_and_nothing_is_decided_in_those_awaited() {
    let all = loader().part(None, None, vec![cluster("all", ALLOW_ALL)]);
    let begun = loader().begin(all, ["ml".to_owned()]);
    assert!(!begun.is_loaded("ml") && begun.is_loaded("ops"));
    let decision = decide(&begun, "ml", &queue("q"));
    assert_eq!(decision.verdict, Verdict::Undecided(Undecided::NotSynced));
    assert!(decide(&begun, "ops", &queue("q")).allows());
    // A policy of the cluster takes effect in all other namespaces while one is awaited.
    let no = loader().part(Some(&begun), None, vec![cluster("no", NONE)]);
    let forbidden = begun.with(no);
    assert_eq!(
        decide(&forbidden, "ops", &queue("q")).verdict,
        Verdict::Forbidden
    );
    assert!(!forbidden.is_loaded("ml"));
    let own = loader().part(Some(&begun), Some("ml"), vec![namespaced("ml", "x", OTHER)]);
    let loaded = begun.with(own);
    assert!(decide(&loaded, "ml", &queue("q")).allows());
    assert_ne!(begun.version("ml"), loaded.version("ml"));
    let whole = set(vec![
        cluster("all", ALLOW_ALL),
        namespaced("ml", "x", OTHER),
    ]);
    assert_eq!(loaded.hash(), whole.hash());
}

#[test]
fn text_longer_than_an_image_may_be_is_not_decided_on() {
    let policies = set(vec![cluster("all", ALLOW_ALL)]);
    let image = |length| Ask::UseImage("é".repeat(length));
    assert!(decide(&policies, "ml", &image(MAX_TEXT)).allows());
    let long = decide(&policies, "ml", &image(MAX_TEXT + 1));
    let why = long.why_undecided().unwrap();
    assert!(why.contains("has more than 1024 characters"), "{why}");
}

#[test]
fn pause_comes_before_each_request() {
    let pauses = Arc::new(AtomicUsize::new(0));
    let count = pauses.clone();
    let policies = set(vec![cluster("all", ALLOW_ALL)]);
    let paced = policies.paced(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(paced.version("ml"), policies.version("ml"));
    for n in 1..4 {
        let decision = Around::default().decide_once(&paced, "ml", &queue("q"));
        assert_eq!(decision, decide(&policies, "ml", &queue("q")));
        assert_eq!(pauses.load(Ordering::Relaxed), n);
    }
}
