//! Only a forbid of a Deny policy with `onViolation: Evict` evicts a running gang; an error or a
//! missing permit does not.

use serde_json::json;
use trellis_api::Enforcement;
use trellis_policies::cedar::{Decision, Policies, PolicyObject, Verdict};

use super::support::{ALLOW_ALL, cluster, cluster_with, decide, enforced, loader, queue, set};

const FORBID: &str = "forbid(principal, action == Trellis::Action::\"UseQueue\", resource);";
const BROKEN: &str = "forbid(principal, action, resource) when { context.nope };";
const ERRS: &str =
    "forbid(principal, action, resource) when { context.gpus + 9223372036854775807 > 0 };";

fn evicting(name: &str, cedar: &str) -> PolicyObject {
    cluster_with(name, cedar, json!({"onViolation": "Evict"}))
}

fn of(policies: &Policies) -> Decision {
    decide(policies, "ml", &queue("prod"))
}

#[test]
fn forbids_of_an_object_that_says_so_and_no_others() {
    let policies = set(vec![
        cluster("all", ALLOW_ALL),
        cluster("told", FORBID),
        cluster_with("report", FORBID, json!({"onViolation": "Report"})),
        evicting("evict", &format!("{FORBID} {ALLOW_ALL}")),
    ]);
    let decision = of(&policies);
    assert_eq!(decision.policies, ["evict/0", "report/0", "told/0"]);
    assert_eq!(decision.evicting, ["evict/0"]);
    let reports = set(vec![cluster("all", ALLOW_ALL), cluster("told", FORBID)]);
    assert_eq!(of(&reports).evicting, Vec::<String>::new());
}

#[test]
fn a_permit_that_is_missing_stops_nothing() {
    let other = "permit(principal, action == Trellis::Action::\"Submit\", resource);";
    let decision = of(&set(vec![evicting("evict", other)]));
    assert_eq!(decision.verdict, Verdict::NotPermitted);
    assert_eq!(decision.evicting, Vec::<String>::new());
    let allowed = of(&set(vec![evicting("evict", ALLOW_ALL)]));
    assert_eq!(allowed.verdict, Verdict::Allowed);
    assert_eq!(allowed.evicting, Vec::<String>::new());
}

#[test]
fn what_does_not_decide_stops_nothing() {
    for enforcement in [Enforcement::Warn, Enforcement::Audit] {
        let policies = set(vec![
            cluster("all", ALLOW_ALL),
            enforced(enforcement, evicting("evict", FORBID)),
        ]);
        let decision = of(&policies);
        assert_eq!(decision.verdict, Verdict::Allowed);
        assert_eq!(decision.beside[0].policies, ["evict/0"]);
        assert_eq!(decision.evicting, Vec::<String>::new());
    }
}

#[test]
fn an_error_stops_nothing_and_keeps_no_forbid_that_holds_from_it() {
    let policies = set(vec![cluster("all", ALLOW_ALL), evicting("errs", ERRS)]);
    let decision = of(&policies);
    assert!(matches!(decision.verdict, Verdict::Undecided(_)));
    assert_eq!(decision.evicting, Vec::<String>::new());
    // No other policy could take a forbid back.
    let policies = set(vec![evicting("errs", ERRS), evicting("holds", FORBID)]);
    assert_eq!(of(&policies).evicting, ["holds/0"]);
}

#[test]
fn an_invalid_object_stops_what_its_last_good_version_stops() {
    let load = |previous: Option<&Policies>, object: PolicyObject| {
        let objects = vec![cluster("all", ALLOW_ALL), object];
        loader().load(previous, objects).0
    };
    let never_good = load(None, evicting("x", BROKEN));
    assert!(matches!(of(&never_good).verdict, Verdict::Undecided(_)));
    assert_eq!(of(&never_good).evicting, Vec::<String>::new());

    let reported = load(None, cluster("x", FORBID));
    let degraded = load(Some(&reported), evicting("x", BROKEN));
    assert_eq!(of(&degraded).verdict, Verdict::Forbidden);
    assert_eq!(of(&degraded).evicting, Vec::<String>::new());

    let good = load(None, evicting("x", FORBID));
    let degraded = load(Some(&good), cluster("x", BROKEN));
    assert_eq!(of(&degraded).evicting, ["x/0"]);
}

/// Otherwise the operator would not decide again about jobs that are already denied.
#[test]
fn what_becomes_of_violations_is_a_part_of_what_decides() {
    let reports = set(vec![cluster("x", FORBID)]);
    let evicts = set(vec![evicting("x", FORBID)]);
    assert_ne!(reports.version("ml"), evicts.version("ml"));
    assert_ne!(reports.hash(), evicts.hash());
}
