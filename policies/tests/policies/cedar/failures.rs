//! After every kind of failure no job is allowed, and the reason is reported.

use serde_json::json;
use trellis_api::{Enforcement, Reason};
use trellis_policies::cedar::{
    Ask, Decision, ObjectState, Policies, PolicyObject, Requester, Undecided, Verdict,
};

use super::support::{
    ALLOW_ALL, Around, cluster, cluster_with, decide, enforced, labels, loader, namespaced, queue,
    secret, set,
};

const BROKEN: &str = "permit(principal, action, resource) when { context.nope };";

fn load(objects: Vec<PolicyObject>) -> Policies {
    loader().load(None, objects).0
}

fn undecided(decision: &Decision) -> &Undecided {
    match &decision.verdict {
        Verdict::Undecided(why) => why,
        other => panic!("decided: {other:?}"),
    }
}

#[test]
fn no_policy_at_all_denies() {
    let decision = decide(&set(vec![]), "ml", &queue("prod"));
    assert_eq!(decision.verdict, Verdict::NotPermitted);
    assert_eq!(
        decision.hint.as_deref(),
        Some(
            "permit(principal == Trellis::Namespace::\"ml\", action == \
             Trellis::Action::\"UseQueue\", resource == Trellis::Queue::\"prod\");"
        )
    );
}

#[test]
fn a_policy_that_never_was_valid_keeps_its_reach_from_all() {
    let good = || cluster("all", ALLOW_ALL);
    let reached = |policies: &Policies, namespace: &str, pairs: &[(&str, &str)]| {
        let around = Around {
            labels: labels(pairs),
            ..Around::default()
        };
        let decision = around.decide(policies, namespace, &queue("prod"));
        if let Verdict::Undecided(why) = &decision.verdict {
            assert_eq!(why.reason(), Reason::PolicyNotEvaluated);
            assert!(why.to_string().contains("bad"), "{why}");
        }
        !decision.allows()
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
fn a_forbid_is_an_answer_whatever_else_is_broken() {
    let policies = load(vec![
        cluster("no", "forbid(principal, action, resource);"),
        cluster("bad", BROKEN),
    ]);
    let decision = decide(&policies, "ml", &queue("prod"));
    assert_eq!(decision.verdict, Verdict::Forbidden);
    assert_eq!(decision.policies, ["no/0"]);
}

/// A sum that overflows is an error of evaluation, which Cedar passes over.
#[test]
fn an_overflow_denies_where_cedar_would_allow() {
    let sum = "forbid(principal, action, resource) \
               when { context.gpus * 9223372036854775807 > 8 };";
    let policies = set(vec![cluster("all", ALLOW_ALL), cluster("sum", sum)]);
    let around = |gpus| Around {
        gpus,
        ..Around::default()
    };
    assert!(around(0).decide(&policies, "ml", &queue("prod")).allows());
    let decision = around(2).decide(&policies, "ml", &queue("prod"));
    assert_eq!(undecided(&decision), &Undecided::Error);
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
fn a_permit_that_errs_denies_even_beside_one_that_holds() {
    let errs =
        "permit(principal, action, resource) when { context.gpus + 9223372036854775807 > 8 };";
    let policies = set(vec![cluster("all", ALLOW_ALL), cluster("errs", errs)]);
    let decision = decide(&policies, "ml", &queue("prod"));
    assert_eq!(undecided(&decision), &Undecided::Error);
}

/// An attribute of an entity that is in no request is an error, not an absence.
#[test]
fn an_entity_that_nobody_knows_denies() {
    let text = "forbid(principal, action, resource) \
                when { Trellis::Queue::\"gone\".selectsNamespace };";
    let policies = set(vec![cluster("all", ALLOW_ALL), cluster("other", text)]);
    let decision = decide(&policies, "ml", &queue("prod"));
    assert_eq!(undecided(&decision), &Undecided::Error);
    assert!(
        decision.errors[0].contains("does not exist"),
        "{:?}",
        decision.errors
    );
}

#[test]
fn a_requester_whom_nobody_knows_is_nobody() {
    let text = "permit(principal, action, resource) when { context has requester && \
                context.requester.groups.contains(\"research\") };";
    let policies = set(vec![cluster("people", text)]);
    let by = |requester| {
        let around = Around {
            requester,
            ..Around::default()
        };
        around.decide(&policies, "ml", &queue("prod")).verdict
    };
    let requester = |group: &str| {
        Some(Requester {
            user: "ada".to_owned(),
            groups: [group.to_owned()].into(),
        })
    };
    assert_eq!(by(requester("research")), Verdict::Allowed);
    assert_eq!(by(requester("sales")), Verdict::NotPermitted);
    assert_eq!(by(None), Verdict::NotPermitted);
}

#[test]
fn a_request_that_cannot_be_put_together_denies() {
    use trellis_compiler::{Endpoint, Peer};
    let policies = set(vec![cluster("all", ALLOW_ALL)]);
    let peer = Peer::Cidr("nowhere".to_owned());
    let ask = Ask::ConnectTo(trellis_policies::cedar::Far {
        endpoint: Endpoint {
            peer,
            ports: Vec::new(),
        },
        namespace: "ml".to_owned(),
    });
    let decision = decide(&policies, "ml", &ask);
    let why = undecided(&decision).to_string();
    assert_eq!(
        why,
        "the request cannot be put together: \"nowhere\" is no network"
    );
}

#[test]
fn the_last_good_version_stays() {
    let text = |name: &str| {
        format!(
            "permit(principal == Trellis::Namespace::\"{name}\", \
             action == Trellis::Action::\"UseSecret\", resource);"
        )
    };
    let loader = loader();
    let (first, verdicts) = loader.load(None, vec![cluster("x", &text("ml"))]);
    assert_eq!(verdicts[0].state, ObjectState::Active);
    let ask = secret("ml", "token");
    assert!(decide(&first, "ml", &ask).allows());

    let (second, verdicts) = loader.load(Some(&first), vec![cluster("x", BROKEN)]);
    assert_eq!(verdicts[0].state, ObjectState::Degraded);
    assert!(!verdicts[0].problems.is_empty());
    assert_eq!(verdicts[0].policy_ids, ["x/0"]);
    assert!(decide(&second, "ml", &ask).allows());
    assert!(!decide(&second, "ops", &ask).allows());
    assert_eq!(second.hash(), first.hash());

    // With a different error the same last valid version stays.
    let (third, verdicts) = loader.load(Some(&second), vec![cluster("x", "permit(")]);
    assert_eq!(verdicts[0].state, ObjectState::Degraded);
    assert_eq!(third.hash(), first.hash());

    let (mended, verdicts) = loader.load(Some(&third), vec![cluster("x", &text("ops"))]);
    assert_eq!(verdicts[0].state, ObjectState::Active);
    assert!(!decide(&mended, "ml", &ask).allows());
    assert!(decide(&mended, "ops", &ask).allows());
    assert_ne!(mended.hash(), first.hash());

    // Another object of the name inherits nothing, and one that is gone leaves nothing.
    let other = PolicyObject {
        uid: "another".to_owned(),
        ..cluster("x", BROKEN)
    };
    let (_, verdicts) = loader.load(Some(&mended), vec![other]);
    assert_eq!(verdicts[0].state, ObjectState::Invalid);
    let (gone, _) = loader.load(Some(&mended), vec![]);
    assert_eq!(decide(&gone, "ops", &ask).verdict, Verdict::NotPermitted);
}
