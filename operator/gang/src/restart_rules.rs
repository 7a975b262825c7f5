//! `restart.rules`: the actions for failures. Pure.

use trellis_api::job::{RestartAction, RestartRule};

use super::failure::Fault;

/// Returns the first rule that matches a fault: its position in the list, and its action. As with
/// the `podFailurePolicy` of a Kubernetes Job, only the first match counts.
#[must_use]
pub fn find_restart_rule(rules: &[RestartRule], fault: &Fault) -> Option<(usize, RestartAction)> {
    let mut rules = rules.iter().enumerate();
    let (at, rule) = rules.find(|(_, rule)| rule_matches(rule, fault))?;
    Some((at, rule.action))
}

fn rule_matches(rule: &RestartRule, fault: &Fault) -> bool {
    let code = |codes: &[i32]| fault.exit_code.is_some_and(|code| codes.contains(&code));
    let words = [fault.kubelet_reason.as_str(), fault.reason.as_str()];
    let word = |reasons: &[String]| reasons.iter().any(|r| words.contains(&r.as_str()));
    (rule.on_exit_codes.is_empty() || code(&rule.on_exit_codes))
        && (rule.on_reasons.is_empty() || word(&rule.on_reasons))
        && (rule.groups.is_empty() || rule.groups.contains(&fault.group))
}
