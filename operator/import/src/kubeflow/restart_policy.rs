//! Effects of failures, from the restart policy of each replica type.

use serde_json::json;
use trellis_api::job::{RestartAction, RestartScope};

use crate::draft::JobDraft;
use crate::fields::Fields;
use crate::kueue::failure_policy::exit_code_rule;
use crate::restart_rule::failure_rule;

/// Exit codes of permanent failures under the policy ExitCode: 1 to 127. Higher codes are retried.
const PERMANENT_CODES: std::ops::RangeInclusive<i32> = 1..=127;
/// Greatest number of codes in one rule (docs/api.md).
const MAX_CODES: usize = 32;

/// The restart policy of a group.
pub(super) struct ReplicaRestartPolicy {
    group: String,
    policy: Option<String>,
}

impl ReplicaRestartPolicy {
    pub(super) fn from_fields(of_type: &Fields<'_>, group: &str) -> Self {
        let words = ["Always", "OnFailure", "Never", "ExitCode"];
        let policy = of_type.one_of("restartPolicy", &words);
        if matches!(policy.as_deref(), Some("OnFailure" | "Always")) {
            of_type.note_at(
                "restartPolicy",
                "restarts one container in Kubeflow, and Trellis restarts the whole gang, because static ranks cannot continue without a lost member",
                "set spec.restart.scope to Pod to restart single pods; elastic groups do so by default",
            );
        }
        Self {
            group: group.to_owned(),
            policy,
        }
    }
}

/// Sets the restart limit of the job. Two fields contain it, and the greater value applies.
pub(super) fn set_restart_limit(draft: &mut JobDraft, owner: &Fields<'_>, key: &str, limit: i64) {
    match draft.restart_mut().limit {
        Some(other) if other != limit => {
            let value = json!(limit);
            let maximum = limit.max(other);
            draft.restart_mut().limit = Some(maximum);
            owner.log().note(
                &owner.field_path(key),
                Some(&value),
                "is one of two limits of restarts: elasticPolicy.maxRestarts and runPolicy.backoffLimit are one field in Trellis",
                format!("spec.restart.limit is {maximum}, the larger of the two"),
            );
        }
        _ => draft.restart_mut().limit = Some(limit),
    }
}

/// Writes the policies into the job's restart settings.
pub(super) fn apply_policies(policies: &[ReplicaRestartPolicy], draft: &mut JobDraft) {
    let groups_with = |policy_name: &str| -> Vec<String> {
        let are = policies
            .iter()
            .filter(|p| p.policy.as_deref() == Some(policy_name));
        are.map(|policy| policy.group.clone()).collect()
    };
    let (never, by_code) = (groups_with("Never"), groups_with("ExitCode"));
    let named = |groups: &[String]| -> Vec<String> {
        let all = groups.len() == policies.len();
        if all { Vec::new() } else { groups.to_vec() }
    };
    let mut rules = Vec::new();
    if !never.is_empty() {
        rules.push(failure_rule(named(&never), RestartScope::Never));
    }
    if !by_code.is_empty() {
        let codes: Vec<i32> = PERMANENT_CODES.collect();
        let of_codes = |codes| exit_code_rule(codes, named(&by_code), RestartAction::Fail);
        rules.extend(codes.chunks(MAX_CODES).map(of_codes));
    }
    if !rules.is_empty() {
        draft.restart_mut().rules = rules;
    }
}
