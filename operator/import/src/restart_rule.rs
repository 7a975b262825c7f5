//! Builds a restart rule: reasons, groups and action. Importers of several systems use it.

use trellis_api::job::{RestartAction, RestartRule, RestartScope};

/// Reasons of a pod that has failed by itself (docs/reasons.md).
pub(crate) const FAILURE_REASONS: [&str; 2] = ["PodFailed", "OutOfMemory"];

/// Returns a rule for all failures of these groups. A rule that ends the job covers only the pods'
/// own failures; other rules also cover evictions.
pub(crate) fn failure_rule(groups: Vec<String>, scope: RestartScope) -> RestartRule {
    let reasons: &[&str] = match scope {
        RestartScope::Never => &FAILURE_REASONS,
        _ => &[],
    };
    restart_rule(reasons, groups, action_for(scope))
}

pub(crate) fn restart_rule(
    reasons: &[&str],
    groups: Vec<String>,
    action: RestartAction,
) -> RestartRule {
    RestartRule {
        on_exit_codes: Vec::new(),
        on_reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
        groups,
        action,
    }
}

/// Returns the action of a rule with this scope. Without a rule, the gang restarts.
pub(crate) fn action_for(scope: RestartScope) -> RestartAction {
    match scope {
        RestartScope::Gang => RestartAction::Restart,
        RestartScope::Group => RestartAction::RestartGroup,
        RestartScope::Slice => RestartAction::RestartSlice,
        RestartScope::Pod => RestartAction::RestartPod,
        RestartScope::Never => RestartAction::Fail,
    }
}
