//! Several objects together: ids of policies, the hash, and reloading.

use serde_json::json;
use trellis_api::Enforcement;
use trellis_policies::cedar::{Policies, PolicyLoader, PolicyObject};

use super::support::{
    ALLOW_ALL, cluster, cluster_with, decide, enforced, loader, namespaced, queue_request, set,
};

#[test]
fn policy_id_has_the_object_name_and_annotation_or_position() {
    let text = "permit(principal, action, resource);\n\
                @id(\"two\") permit(principal, action, resource);\n\
                forbid(principal, action, resource) when { context.gpus > 8 };";
    let (policies, verdicts) =
        loader().load(None, vec![cluster("c", text), namespaced("ml", "c", text)]);
    assert_eq!(verdicts[0].policy_ids, ["c/0", "c/two", "c/2"]);
    assert_eq!(verdicts[1].policy_ids, ["ml/c/2"]);
    let warned: Vec<_> = verdicts[1]
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(warned.len(), 2);
    assert_eq!(
        warned[1],
        "spec.cedar: the permit \"ml/c/two\" grants nothing: a JobPolicy only narrows: \
         have it written into a ClusterJobPolicy, or remove it"
    );
    let decision = decide(&policies, "ml", &queue_request("prod"));
    assert_eq!(decision.policies, ["c/0", "c/two"]);
}

fn hash(objects: Vec<PolicyObject>) -> String {
    let (policies, _) = loader().load(None, objects);
    policies.hash().to_owned()
}

#[test]
fn policy_hash_covers_exactly_the_fields_that_decide() {
    let a = || cluster("a", ALLOW_ALL);
    let b = || namespaced("ml", "b", "forbid(principal, action, resource);");
    let base = hash(vec![a(), b()]);
    assert_eq!(base.len(), 16);
    assert_eq!(hash(vec![b(), a()]), base);
    let other_uid = PolicyObject {
        uid: "2".to_owned(),
        ..a()
    };
    assert_eq!(hash(vec![other_uid, b()]), base);
    let selector = json!({"namespaceSelector": {"matchLabels": {"a": "b"}}});
    let changes = [
        vec![a()],
        vec![a(), b(), cluster("c", ALLOW_ALL)],
        vec![
            cluster("a", "permit(principal, action, resource) when { true };"),
            b(),
        ],
        vec![cluster("z", ALLOW_ALL), b()],
        vec![
            a(),
            namespaced("ops", "b", "forbid(principal, action, resource);"),
        ],
        vec![enforced(Enforcement::Audit, a()), b()],
        vec![cluster_with("a", ALLOW_ALL, selector), b()],
        vec![a(), b(), cluster("bad", "permit(")],
    ];
    let mut seen = std::collections::BTreeSet::from([base]);
    for objects in changes {
        assert!(seen.insert(hash(objects.clone())), "{objects:?}");
    }
}

#[test]
fn reloading_keeps_unchanged_objects_and_recompiles_changed_ones() {
    let loader = loader();
    let load = |loader: &PolicyLoader, before: Option<&Policies>, text: &str| {
        loader
            .load(
                before,
                vec![
                    cluster("a", text),
                    cluster("b", "forbid(principal, action, resource);"),
                ],
            )
            .0
    };
    let first = load(loader, None, ALLOW_ALL);
    let same = load(loader, Some(&first), ALLOW_ALL);
    assert_eq!(same.hash(), first.hash());
    let other = load(
        loader,
        Some(&same),
        "permit(principal, action, resource) when { true };",
    );
    assert_ne!(other.hash(), first.hash());
}

#[test]
fn object_with_many_policies_decides_by_each() {
    let mut text = String::new();
    for i in 0..128 {
        text.push_str(&format!(
            "permit(principal == Trellis::Namespace::\"n{i}\", \
             action == Trellis::Action::\"UseQueue\", resource == Trellis::Queue::\"q{i}\");\n"
        ));
    }
    let policies = set(vec![cluster("many", &text)]);
    for i in [0, 64, 127] {
        let decision = decide(
            &policies,
            &format!("n{i}"),
            &queue_request(&format!("q{i}")),
        );
        assert_eq!(decision.policies, [format!("many/{i}")]);
    }
    assert!(!decide(&policies, "n1", &queue_request("q2")).is_allowed());
}

/// A namespace's decisions depend only on the policies that reach it.
#[test]
fn policy_version_ignores_policies_of_other_namespaces() {
    let no = "forbid(principal, action, resource);";
    let all = || cluster("all", ALLOW_ALL);
    let before = set(vec![all(), namespaced("a", "x", no)]);
    let after = set(vec![
        all(),
        namespaced("a", "x", no),
        namespaced("b", "x", no),
    ]);
    assert_ne!(before.hash(), after.hash());
    assert_eq!(before.version("a"), after.version("a"));
    assert_eq!(before.version("c"), after.version("c"));
    assert_ne!(before.version("b"), after.version("b"));
    let wider = set(vec![all(), cluster("no", no), namespaced("a", "x", no)]);
    assert_ne!(before.version("a"), wider.version("a"));
    assert_ne!(before.version("c"), wider.version("c"));
}

/// An object whose stored form cannot be decoded.
#[test]
fn undecodable_object_keeps_its_last_valid_version() {
    use trellis_policies::cedar::{ObjectKey, PolicyObjectState};
    let key = |namespace: Option<&str>| ObjectKey {
        namespace: namespace.map(str::to_owned),
        name: "x".to_owned(),
    };
    let unreadable = |namespace, uid: &str| {
        PolicyObject::from_decode_error(key(namespace), uid.to_owned(), "no field".to_owned())
    };
    let loader = loader();
    let no = cluster("x", "forbid(principal, action, resource);");
    let uid = no.uid.clone();
    let (before, _) = loader.load(None, vec![cluster("all", ALLOW_ALL), no]);
    // The last good version stays.
    let objects = vec![cluster("all", ALLOW_ALL), unreadable(None, &uid)];
    let (after, verdicts) = loader.load(Some(&before), objects);
    assert_eq!(verdicts[1].state, PolicyObjectState::Degraded);
    assert!(verdicts[1].problems[0].to_string().contains("no field"));
    assert_eq!(before.hash(), after.hash());
    // Without a last valid version nothing is allowed where the object may reach.
    let objects = |namespace| vec![cluster("all", ALLOW_ALL), unreadable(namespace, "new")];
    let (everywhere, verdicts) = loader.load(None, objects(None));
    assert_eq!(verdicts[1].state, PolicyObjectState::Invalid);
    assert!(!decide(&everywhere, "ml", &queue_request("prod")).is_allowed());
    let (own, _) = loader.load(None, objects(Some("ml")));
    assert!(!decide(&own, "ml", &queue_request("prod")).is_allowed());
    assert!(decide(&own, "ops", &queue_request("prod")).is_allowed());
}
