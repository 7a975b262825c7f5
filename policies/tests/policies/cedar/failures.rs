//! After every kind of failure no job is allowed, and the reason is reported.

use serde_json::json;
use trellis_api::{Enforcement, Reason};
use trellis_policies::cedar::{
    Policies, PolicyObject, PolicyObjectState, PolicyRequest, RequestDecision, RequestVerdict,
    UndecidedReason,
};

use super::support::{
    ALLOW_ALL, RequestFixture, cluster, cluster_with, decide, enforced, labels, loader, namespaced,
    queue_request, secret_request, set,
};

const BROKEN: &str = "permit(principal, action, resource) when { context.nope };";

fn load(objects: Vec<PolicyObject>) -> Policies {
    loader().load(None, objects).0
}

fn undecided_reason(decision: &RequestDecision) -> &UndecidedReason {
    match &decision.verdict {
        RequestVerdict::Undecided(why) => why,
        other => panic!("decided: {other:?}"),
    }
}

#[test]
fn request_is_denied_without_policies() {
    let decision = decide(&set(vec![]), "ml", &queue_request("prod"));
    assert_eq!(decision.verdict, RequestVerdict::NotPermitted);
    assert_eq!(
        decision.missing_permit.as_deref(),
        Some(
            "permit(principal == Trellis::Namespace::\"ml\", action == \
             Trellis::Action::\"UseQueue\", resource == Trellis::Queue::\"prod\");"
        )
    );
}

#[test]
fn never_valid_policy_blocks_the_namespaces_it_selects() {
    let good = || cluster("all", ALLOW_ALL);
    let reached = |policies: &Policies, namespace: &str, pairs: &[(&str, &str)]| {
        let around = RequestFixture {
            labels: labels(pairs),
            ..RequestFixture::default()
        };
        let decision = around.decide(policies, namespace, &queue_request("prod"));
        if let RequestVerdict::Undecided(why) = &decision.verdict {
            assert_eq!(why.reason(), Reason::PolicyNotEvaluated);
            assert!(why.to_string().contains("bad"), "{why}");
        }
        !decision.is_allowed()
    };
    let everywhere = load(vec![good(), cluster("bad", BROKEN)]);
    assert!(reached(&everywhere, "ml", &[]));
    let selected = json!({"namespaceSelector": {"matchLabels": {"tier": "gold"}}});
    let selected = load(vec![good(), cluster_with("bad", BROKEN, selected)]);
    assert!(reached(&selected, "ml", &[("tier", "gold")]));
    assert!(!reached(&selected, "ml", &[("tier", "lead")]));
    let own = load(vec![good(), namespaced("ml", "bad", BROKEN)]);
    assert!(reached(&own, "ml", &[]));
    assert!(!reached(&own, "ops", &[]));
    // An unreadable selector may select every namespace.
    let unread = json!({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "IN", "values": ["b"]}]}});
    let unread = load(vec![good(), cluster_with("bad", ALLOW_ALL, unread)]);
    assert!(reached(&unread, "ml", &[]));
    for enforcement in [Enforcement::Warn, Enforcement::Audit] {
        let beside = load(vec![good(), enforced(enforcement, cluster("bad", BROKEN))]);
        assert!(!reached(&beside, "ml", &[]));
    }
}

#[test]
fn forbid_decides_while_another_policy_is_invalid() {
    let policies = load(vec![
        cluster("no", "forbid(principal, action, resource);"),
        cluster("bad", BROKEN),
    ]);
    let decision = decide(&policies, "ml", &queue_request("prod"));
    assert_eq!(decision.verdict, RequestVerdict::Forbidden);
    assert_eq!(decision.policies, ["no/0"]);
}

/// A sum that overflows is an error of evaluation, which Cedar passes over.
#[test]
fn overflow_in_a_forbid_denies_the_request() {
    let sum = "forbid(principal, action, resource) \
               when { context.gpus * 9223372036854775807 > 8 };";
    let policies = set(vec![cluster("all", ALLOW_ALL), cluster("sum", sum)]);
    let around = |gpus| RequestFixture {
        gpus,
        ..RequestFixture::default()
    };
    assert!(
        around(0)
            .decide(&policies, "ml", &queue_request("prod"))
            .is_allowed()
    );
    let decision = around(2).decide(&policies, "ml", &queue_request("prod"));
    assert_eq!(
        undecided_reason(&decision),
        &UndecidedReason::EvaluationError
    );
    assert!(
        decision.errors[0].contains("sum/0"),
        "{:?}",
        decision.errors
    );
    assert!(
        decision.errors[0].contains("overflow"),
        "{:?}",
        decision.errors
    );
    assert_eq!(decision.policies, Vec::<String>::new());
}

#[test]
fn failing_permit_denies_although_another_permit_matches() {
    let errs =
        "permit(principal, action, resource) when { context.gpus + 9223372036854775807 > 8 };";
    let policies = set(vec![cluster("all", ALLOW_ALL), cluster("errs", errs)]);
    let decision = decide(&policies, "ml", &queue_request("prod"));
    assert_eq!(
        undecided_reason(&decision),
        &UndecidedReason::EvaluationError
    );
}

/// An attribute of an entity that is in no request is an error, not an absence.
#[test]
fn policy_on_an_unknown_entity_denies_the_request() {
    let text = "forbid(principal, action, resource) \
                when { Trellis::Queue::\"gone\".selectsNamespace };";
    let policies = set(vec![cluster("all", ALLOW_ALL), cluster("other", text)]);
    let decision = decide(&policies, "ml", &queue_request("prod"));
    assert_eq!(
        undecided_reason(&decision),
        &UndecidedReason::EvaluationError
    );
    assert!(
        decision.errors[0].contains("does not exist"),
        "{:?}",
        decision.errors
    );
}

#[test]
fn invalid_request_is_denied() {
    use trellis_compiler::{Endpoint, Peer};
    let policies = set(vec![cluster("all", ALLOW_ALL)]);
    let peer = Peer::Cidr("nowhere".to_owned());
    let ask = PolicyRequest::ConnectTo(trellis_policies::cedar::NetworkPeer {
        endpoint: Endpoint {
            peer,
            ports: Vec::new(),
        },
        namespace: "ml".to_owned(),
    });
    let decision = decide(&policies, "ml", &ask);
    let why = undecided_reason(&decision).to_string();
    assert_eq!(
        why,
        "the request cannot be put together: \"nowhere\" is no network"
    );
}

#[test]
fn last_valid_version_stays_in_effect() {
    let text = |name: &str| {
        format!(
            "permit(principal == Trellis::Namespace::\"{name}\", \
             action == Trellis::Action::\"UseSecret\", resource);"
        )
    };
    let loader = loader();
    let (first, verdicts) = loader.load(None, vec![cluster("x", &text("ml"))]);
    assert_eq!(verdicts[0].state, PolicyObjectState::Active);
    let ask = secret_request("ml", "token");
    assert!(decide(&first, "ml", &ask).is_allowed());

    let (second, verdicts) = loader.load(Some(&first), vec![cluster("x", BROKEN)]);
    assert_eq!(verdicts[0].state, PolicyObjectState::Degraded);
    assert!(!verdicts[0].problems.is_empty());
    assert_eq!(verdicts[0].policy_ids, ["x/0"]);
    assert!(decide(&second, "ml", &ask).is_allowed());
    assert!(!decide(&second, "ops", &ask).is_allowed());
    assert_eq!(second.hash(), first.hash());

    // With a different error the same last valid version stays.
    let (third, verdicts) = loader.load(Some(&second), vec![cluster("x", "permit(")]);
    assert_eq!(verdicts[0].state, PolicyObjectState::Degraded);
    assert_eq!(third.hash(), first.hash());

    let (mended, verdicts) = loader.load(Some(&third), vec![cluster("x", &text("ops"))]);
    assert_eq!(verdicts[0].state, PolicyObjectState::Active);
    assert!(!decide(&mended, "ml", &ask).is_allowed());
    assert!(decide(&mended, "ops", &ask).is_allowed());
    assert_ne!(mended.hash(), first.hash());

    // Another object of the name inherits nothing, and one that is gone leaves nothing.
    let other = PolicyObject {
        uid: "another".to_owned(),
        ..cluster("x", BROKEN)
    };
    let (_, verdicts) = loader.load(Some(&mended), vec![other]);
    assert_eq!(verdicts[0].state, PolicyObjectState::Invalid);
    let (gone, _) = loader.load(Some(&mended), vec![]);
    assert_eq!(
        decide(&gone, "ops", &ask).verdict,
        RequestVerdict::NotPermitted
    );
}
