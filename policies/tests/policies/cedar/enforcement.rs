//! Deny policies decide; Warn and Audit policies only report what they would deny.

use trellis_api::Enforcement;
use trellis_policies::cedar::{Beside, Verdict};

use super::support::{ALLOW_ALL, cluster, decide, enforced, queue, set};

const FORBID: &str = "forbid(principal, action == Trellis::Action::\"UseQueue\", resource);";
const ERRS: &str =
    "forbid(principal, action, resource) when { context.gpus + 9223372036854775807 > 0 };";

#[test]
fn warn_and_audit_say_what_they_would_deny_and_deny_nothing() {
    let policies = set(vec![
        cluster("all", ALLOW_ALL),
        enforced(Enforcement::Warn, cluster("w", FORBID)),
        enforced(Enforcement::Audit, cluster("a", FORBID)),
        enforced(Enforcement::Audit, cluster("b", FORBID)),
    ]);
    let decision = decide(&policies, "ml", &queue("prod"));
    assert_eq!(decision.verdict, Verdict::Allowed);
    assert_eq!(decision.policies, ["all/0"]);
    let beside = |enforcement, ids: &[&str]| Beside {
        enforcement,
        policies: ids.iter().map(|&id| id.to_owned()).collect(),
        errors: Vec::new(),
    };
    assert_eq!(
        decision.beside,
        [
            beside(Enforcement::Warn, &["w/0"]),
            beside(Enforcement::Audit, &["a/0", "b/0"])
        ]
    );
}

#[test]
fn what_errs_beside_is_told_and_changes_nothing() {
    let policies = set(vec![
        cluster("all", ALLOW_ALL),
        enforced(Enforcement::Warn, cluster("w", ERRS)),
    ]);
    let decision = decide(&policies, "ml", &queue("prod"));
    assert_eq!(decision.verdict, Verdict::Allowed);
    assert!(decision.beside[0].errors[0].contains("w/0"), "{decision:?}");
}

#[test]
fn a_permit_that_does_not_decide_grants_nothing() {
    for enforcement in [Enforcement::Warn, Enforcement::Audit] {
        let policies = set(vec![enforced(enforcement, cluster("w", ALLOW_ALL))]);
        let decision = decide(&policies, "ml", &queue("prod"));
        assert_eq!(decision.verdict, Verdict::NotPermitted);
    }
}
