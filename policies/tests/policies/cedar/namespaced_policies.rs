//! A namespace's policies affect only that namespace and only forbid, and policies that the index
//! skips would not have decided.

use proptest::prelude::*;
use serde_json::json;
use trellis_api::Enforcement;
use trellis_policies::cedar::{PolicyObject, RequestDecision, RequestVerdict};

use super::support::{
    ALLOW_ALL, RequestFixture, cases, cluster, cluster_with, enforced, labels, loader, namespaced,
    queue_request, secret_request,
};

const NAMESPACES: [&str; 3] = ["ml", "ops", "x\"y"];

fn escaped(name: &str) -> String {
    name.replace('"', "\\\"")
}

fn head() -> impl Strategy<Value = String> {
    let namespace = proptest::sample::select(&NAMESPACES[..]).prop_map(escaped);
    let principal = (0..6_u8, namespace, "[ab]").prop_map(|(kind, namespace, team)| match kind {
        0 => "principal".to_owned(),
        1 => format!("principal == Trellis::Namespace::\"{namespace}\""),
        2 => format!("principal in Trellis::Namespace::\"{namespace}\""),
        3 => format!("principal in Trellis::Team::\"{team}\""),
        4 => format!("principal is Trellis::Namespace in Trellis::Team::\"{team}\""),
        _ => "principal is Trellis::Namespace".to_owned(),
    });
    let action = proptest::sample::select(
        &[
            "action",
            "action == Trellis::Action::\"UseQueue\"",
            "action == Trellis::Action::\"UseSecret\"",
            "action in Trellis::Action::\"UseQueue\"",
            "action in [Trellis::Action::\"UseQueue\", Trellis::Action::\"UseSecret\"]",
            "action in [Trellis::Action::\"UseImage\"]",
        ][..],
    );
    (principal, action).prop_map(|(principal, action)| format!("{principal}, {action}, resource"))
}

/// Policies that hold, do not hold, or err, with heads of all kinds.
fn policy() -> impl Strategy<Value = String> {
    let body = proptest::sample::select(
        &[
            "",
            " when { context.gpus > 4 }",
            " unless { context.gpus > 4 }",
            " when { principal.name == \"ml\" }",
            " when { context.gpus + 9223372036854775807 > 0 }",
            " when { context has requester }",
        ][..],
    );
    let effect = proptest::sample::select(&["permit", "permit", "forbid"][..]);
    (effect, head(), body).prop_map(|(effect, head, body)| format!("{effect}({head}){body};"))
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(policy(), 1..4).prop_map(|all| all.join("\n"))
}

/// Text that is partly or entirely no policy.
fn junk_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => text(),
        1 => (text(), "[ -~]{0,12}").prop_map(|(text, junk)| format!("{text}{junk}")),
        1 => "\\PC{1,40}",
        1 => Just("permit(principal, action, resource) when { context.nope };".to_owned()),
    ]
}

fn objects() -> impl Strategy<Value = Vec<PolicyObject>> {
    let enforcement = proptest::sample::select(
        &[
            Enforcement::Deny,
            Enforcement::Deny,
            Enforcement::Warn,
            Enforcement::Audit,
        ][..],
    );
    let selector = proptest::sample::select(vec![
        json!({}),
        json!({"namespaceSelector": {}}),
        json!({"namespaceSelector": {"matchLabels": {"tier": "gold"}}}),
        json!({"namespaceSelector": {"matchLabels": {"tier": "gold", "a": "b"}}}),
        json!({"namespaceSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}}),
    ]);
    let one = (text(), enforcement, selector, 0..2_u8, 0..3_usize).prop_map(
        |(text, enforcement, selector, namespace, which)| {
            let object = match (namespace, NAMESPACES.get(which)) {
                (0, Some(namespace)) => namespaced(namespace, "x", &text),
                _ => cluster_with("x", &text, selector),
            };
            enforced(enforcement, object)
        },
    );
    proptest::collection::vec(one, 0..8).prop_map(|mut all| {
        for (i, object) in all.iter_mut().enumerate() {
            object.key.name = format!("o{i}");
        }
        all
    })
}

fn request_fixtures() -> impl Strategy<Value = RequestFixture> {
    let pairs = proptest::sample::select(vec![
        vec![],
        vec![("tier", "gold")],
        vec![("tier", "gold"), ("a", "b"), ("trellis.dev/team", "a")],
        vec![("tier", "lead"), ("trellis.dev/team", "b")],
        vec![("trellis.dev/team", "")],
    ]);
    (pairs, 0..9_i64).prop_map(|(pairs, gpus)| RequestFixture {
        labels: labels(&pairs),
        gpus,
        ..RequestFixture::default()
    })
}

fn decisions(
    around: &RequestFixture,
    objects: Vec<PolicyObject>,
) -> Vec<(String, RequestDecision)> {
    let (policies, _) = loader().load(None, objects);
    let bare = policies.without_index();
    let mut all = Vec::new();
    for namespace in NAMESPACES {
        for ask in [queue_request("prod"), secret_request("ml", "token")] {
            let decision = around.decide_once(&policies, namespace, &ask);
            assert_eq!(decision, around.decide_once(&bare, namespace, &ask));
            all.push((namespace.to_owned(), decision));
        }
    }
    all
}

proptest! {
    #![proptest_config(cases(48))]

    /// `decisions` compares with and without the index.
    #[test]
    fn index_finds_every_policy_that_decides(objects in objects(), around in request_fixtures()) {
        decisions(&around, objects);
    }

    #[test]
    fn namespaced_policy_affects_only_its_namespace_and_grants_nothing(
        objects in objects(),
        more in junk_text(),
        around in request_fixtures(),
    ) {
        let before = decisions(&around, objects.clone());
        let mut with = objects;
        with.push(namespaced("ml", "mine", &more));
        let after = decisions(&around, with);
        for ((namespace, before), (_, after)) in before.iter().zip(&after) {
            if namespace != "ml" {
                prop_assert_eq!(before, after, "{}", more);
            } else if after.is_allowed() {
                prop_assert!(before.is_allowed(), "it grants: {}", more);
            }
        }
    }

    #[test]
    fn namespaced_policy_cannot_allow_requests_that_the_cluster_forbids(more in junk_text(), around in request_fixtures()) {
        let objects = vec![
            cluster("all", ALLOW_ALL),
            cluster("no", "forbid(principal, action == Trellis::Action::\"UseSecret\", resource);"),
            namespaced("ml", "mine", &more),
        ];
        for (i, (_, decision)) in decisions(&around, objects).iter().enumerate() {
            if i % 2 == 1 {
                prop_assert_eq!(&decision.verdict, &RequestVerdict::Forbidden);
            }
        }
    }
}
