//! Reasons for which policies with `onViolation: Evict` stop a placed gang.

use std::collections::BTreeMap;

use trellis_api::pod_group::Plan;
use trellis_policies::cedar::{JobDecision, PolicyRequest};

/// Reasons to evict the job if it runs, in words, by the id of the policy.
pub type EvictionReasons = BTreeMap<String, String>;

/// Returns true if the request applies to the placed gang. A flavor counts only if the gang got it.
fn applies_to_placed_gang(plan: &Plan, request: &PolicyRequest) -> bool {
    match request {
        PolicyRequest::UseFlavor(name) => plan
            .groups
            .iter()
            .any(|group| group.flavors.values().any(|flavor| flavor == name)),
        // Its nodes exist.
        PolicyRequest::ProvisionNodes(_) => false,
        _ => true,
    }
}

/// Returns the reasons to evict the job that all decisions share. The decisions differ in the
/// assumed requester.
pub fn eviction_reasons(plan: &Plan, decisions: &[JobDecision]) -> EvictionReasons {
    let mut all = decisions
        .iter()
        .map(|decision| decision.eviction_reasons(|ask| applies_to_placed_gang(plan, ask)));
    let first = all.next().unwrap_or_default();
    all.fold(first, |mut sure, other| {
        sure.retain(|id, _| other.contains_key(id));
        sure
    })
}

#[cfg(test)]
mod tests {
    use trellis_policies::cedar::ImageReference;

    use super::*;

    #[test]
    fn flavor_counts_only_if_the_gang_was_given_it() {
        let plan: Plan = serde_json::from_value(serde_json::json!({
            "hash": "", "attempt": 1, "generation": 1, "compiled": "", "assignments": [],
            "groups": [{"name": "worker", "flavors": {"cpu": "a10", "memory": "a10"}}],
        }))
        .unwrap();
        let flavor = |name: &str| PolicyRequest::UseFlavor(name.to_owned());
        assert!(applies_to_placed_gang(&plan, &flavor("a10")));
        assert!(!applies_to_placed_gang(&plan, &flavor("h100")));
        assert!(applies_to_placed_gang(
            &plan,
            &PolicyRequest::UseImage(ImageReference("h100".to_owned()))
        ));
    }
}
