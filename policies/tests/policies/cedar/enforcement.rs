//! Deny policies decide; Warn and Audit policies only report what they would deny.

use trellis_api::Enforcement;
use trellis_policies::cedar::{RequestVerdict, UnenforcedResult};

use super::support::{ALLOW_ALL, cluster, decide, enforced, queue_request, set};

const FORBID: &str = "forbid(principal, action == Trellis::Action::\"UseQueue\", resource);";
const FAILING_FORBID: &str =
    "forbid(principal, action, resource) when { context.gpus + 9223372036854775807 > 0 };";

#[test]
fn warn_and_audit_policies_report_denials_and_deny_nothing() {
    let policies = set(vec![
        cluster("all", ALLOW_ALL),
        enforced(Enforcement::Warn, cluster("w", FORBID)),
        enforced(Enforcement::Audit, cluster("a", FORBID)),
        enforced(Enforcement::Audit, cluster("b", FORBID)),
    ]);
    let decision = decide(&policies, "ml", &queue_request("prod"));
    assert_eq!(decision.verdict, RequestVerdict::Allowed);
    assert_eq!(decision.policies, ["all/0"]);
    let beside = |enforcement, ids: &[&str]| UnenforcedResult {
        enforcement,
        policies: ids.iter().map(|&id| id.to_owned()).collect(),
        errors: Vec::new(),
    };
    assert_eq!(
        decision.unenforced,
        [
            beside(Enforcement::Warn, &["w/0"]),
            beside(Enforcement::Audit, &["a/0", "b/0"])
        ]
    );
}

#[test]
fn failing_warn_policy_is_reported_and_the_job_allowed() {
    let policies = set(vec![
        cluster("all", ALLOW_ALL),
        enforced(Enforcement::Warn, cluster("w", FAILING_FORBID)),
    ]);
    let decision = decide(&policies, "ml", &queue_request("prod"));
    assert_eq!(decision.verdict, RequestVerdict::Allowed);
    assert!(
        decision.unenforced[0].errors[0].contains("w/0"),
        "{decision:?}"
    );
}

#[test]
fn warn_or_audit_permit_grants_nothing() {
    for enforcement in [Enforcement::Warn, Enforcement::Audit] {
        let policies = set(vec![enforced(enforcement, cluster("w", ALLOW_ALL))]);
        let decision = decide(&policies, "ml", &queue_request("prod"));
        assert_eq!(decision.verdict, RequestVerdict::NotPermitted);
    }
}
