//! Only a forbid of a Deny policy with `onViolation: Evict` evicts a running gang; an error or a
//! missing permit does not.

use serde_json::json;
use trellis_api::Enforcement;
use trellis_policies::cedar::{Policies, PolicyObject, RequestDecision, RequestVerdict};

use super::support::{
    ALLOW_ALL, cluster, cluster_with, decide, enforced, loader, queue_request, set,
};

const FORBID: &str = "forbid(principal, action == Trellis::Action::\"UseQueue\", resource);";
const BROKEN: &str = "forbid(principal, action, resource) when { context.nope };";
const FAILING_FORBID: &str =
    "forbid(principal, action, resource) when { context.gpus + 9223372036854775807 > 0 };";

fn evicting(name: &str, cedar: &str) -> PolicyObject {
    cluster_with(name, cedar, json!({"onViolation": "Evict"}))
}

fn decide_queue_use(policies: &Policies) -> RequestDecision {
    decide(policies, "ml", &queue_request("prod"))
}

#[test]
fn only_forbids_of_evicting_objects_evict() {
    let policies = set(vec![
        cluster("all", ALLOW_ALL),
        cluster("told", FORBID),
        cluster_with("report", FORBID, json!({"onViolation": "Report"})),
        evicting("evict", &format!("{FORBID} {ALLOW_ALL}")),
    ]);
    let decision = decide_queue_use(&policies);
    assert_eq!(decision.policies, ["evict/0", "report/0", "told/0"]);
    assert_eq!(decision.evicting_policies, ["evict/0"]);
    let reports = set(vec![cluster("all", ALLOW_ALL), cluster("told", FORBID)]);
    assert_eq!(
        decide_queue_use(&reports).evicting_policies,
        Vec::<String>::new()
    );
}

#[test]
fn missing_permit_evicts_no_job() {
    let other = "permit(principal, action == Trellis::Action::\"Submit\", resource);";
    let decision = decide_queue_use(&set(vec![evicting("evict", other)]));
    assert_eq!(decision.verdict, RequestVerdict::NotPermitted);
    assert_eq!(decision.evicting_policies, Vec::<String>::new());
    let allowed = decide_queue_use(&set(vec![evicting("evict", ALLOW_ALL)]));
    assert_eq!(allowed.verdict, RequestVerdict::Allowed);
    assert_eq!(allowed.evicting_policies, Vec::<String>::new());
}

#[test]
fn warn_or_audit_forbid_evicts_no_job() {
    for enforcement in [Enforcement::Warn, Enforcement::Audit] {
        let policies = set(vec![
            cluster("all", ALLOW_ALL),
            enforced(enforcement, evicting("evict", FORBID)),
        ]);
        let decision = decide_queue_use(&policies);
        assert_eq!(decision.verdict, RequestVerdict::Allowed);
        assert_eq!(decision.unenforced[0].policies, ["evict/0"]);
        assert_eq!(decision.evicting_policies, Vec::<String>::new());
    }
}

#[test]
fn failing_policy_evicts_no_job_and_leaves_other_forbids_in_effect() {
    let policies = set(vec![
        cluster("all", ALLOW_ALL),
        evicting("errs", FAILING_FORBID),
    ]);
    let decision = decide_queue_use(&policies);
    assert!(matches!(decision.verdict, RequestVerdict::Undecided(_)));
    assert_eq!(decision.evicting_policies, Vec::<String>::new());
    // No other policy could take a forbid back.
    let policies = set(vec![
        evicting("errs", FAILING_FORBID),
        evicting("holds", FORBID),
    ]);
    assert_eq!(decide_queue_use(&policies).evicting_policies, ["holds/0"]);
}

#[test]
fn invalid_object_evicts_by_its_last_valid_version() {
    let load = |previous: Option<&Policies>, object: PolicyObject| {
        let objects = vec![cluster("all", ALLOW_ALL), object];
        loader().load(previous, objects).0
    };
    let never_good = load(None, evicting("x", BROKEN));
    assert!(matches!(
        decide_queue_use(&never_good).verdict,
        RequestVerdict::Undecided(_)
    ));
    assert_eq!(
        decide_queue_use(&never_good).evicting_policies,
        Vec::<String>::new()
    );

    let reported = load(None, cluster("x", FORBID));
    let degraded = load(Some(&reported), evicting("x", BROKEN));
    assert_eq!(
        decide_queue_use(&degraded).verdict,
        RequestVerdict::Forbidden
    );
    assert_eq!(
        decide_queue_use(&degraded).evicting_policies,
        Vec::<String>::new()
    );

    let good = load(None, evicting("x", FORBID));
    let degraded = load(Some(&good), cluster("x", BROKEN));
    assert_eq!(decide_queue_use(&degraded).evicting_policies, ["x/0"]);
}

/// Otherwise the operator would not decide again about jobs that are already denied.
#[test]
fn policy_hash_changes_with_on_violation() {
    let reports = set(vec![cluster("x", FORBID)]);
    let evicts = set(vec![evicting("x", FORBID)]);
    assert_ne!(reports.version("ml"), evicts.version("ml"));
    assert_ne!(reports.hash(), evicts.hash());
}
