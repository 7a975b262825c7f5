//! The pod failure policy of a Job, as restart rules.

use serde_json::json;
use trellis_api::job::{RestartAction, RestartRule};

use crate::fields::Fields;

/// Greatest number of codes in one rule (docs/api.md).
const MAX_CODES: usize = 32;

/// Reads the rules in their order. In both systems the first matching rule applies.
pub(super) fn read_rules(policy: &Fields<'_>) -> Vec<RestartRule> {
    let rules = policy.objects("rules").into_iter();
    rules.flat_map(|rule| read_rule(&rule)).collect()
}

fn read_rule(rule: &Fields<'_>) -> Vec<RestartRule> {
    let action = match rule
        .value()
        .get("action")
        .and_then(|action| action.as_str())
    {
        Some("FailJob") => RestartAction::Fail,
        Some("Ignore") => RestartAction::RestartWithoutCounting,
        Some("Count") => RestartAction::Restart,
        _ => {
            rule.note(
                "has an action that Trellis does not support for failures",
                SEE_RULES,
            );
            return Vec::new();
        }
    };
    let disruption = json!([{"type": "DisruptionTarget"}]);
    let with_status = json!([{"type": "DisruptionTarget", "status": "True"}]);
    if let Some(conditions) = rule.value().get("onPodConditions") {
        let is_disruption = *conditions == disruption || *conditions == with_status;
        if is_disruption && action == RestartAction::RestartWithoutCounting {
            // Trellis already counts disruptions only against disruptionLimit.
            rule.ignore(&["action", "onPodConditions"]);
        } else {
            rule.note(
                "matches a condition of the pod, and rules of Trellis match a reason",
                SEE_RULES,
            );
        }
        return Vec::new();
    }
    let Some(codes) = rule.object("onExitCodes") else {
        rule.note("names no exit codes", SEE_RULES);
        return Vec::new();
    };
    if codes.value().get("operator") != Some(&json!("In")) {
        rule.note(
            "matches all exit codes except some",
            "list the exit codes that must match in onExitCodes",
        );
        return Vec::new();
    }
    rule.ignore(&["action"]);
    codes.ignore(&["operator"]);
    codes.note_at(
        "containerName",
        "is about one container, and rules of Trellis match the container that failed",
        "leave the rule out if it is about a sidecar",
    );
    let values = codes.items("values");
    let values: Vec<i32> = values.iter().filter_map(Fields::as_i32).collect();
    values
        .chunks(MAX_CODES)
        .map(|codes| exit_code_rule(codes, Vec::new(), action))
        .collect()
}

/// Returns a rule for exit codes of these groups. No groups: the rule applies to all.
pub(crate) fn exit_code_rule(
    codes: &[i32],
    groups: Vec<String>,
    action: RestartAction,
) -> RestartRule {
    RestartRule {
        on_exit_codes: codes.to_vec(),
        on_reasons: Vec::new(),
        groups,
        action,
    }
}

const SEE_RULES: &str = "write the rule into spec.restart.rules (docs/failures.md)";
