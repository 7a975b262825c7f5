//! Effects of failures and evictions, as restart scope and rules.
//!
//! Without a policy Volcano does not restart a failed pod, and recreates a deleted one
//! (`pkg/controllers/job/state/running.go`, `syncJob`).

use trellis_api::job::{RestartAction, RestartRule, RestartScope};

use super::lifecycle_policies::{EvictionRestart, LifecyclePolicies};
use super::success::set_success;
use crate::draft::JobDraft;
use crate::field_log::FieldLog;
use crate::restart_rule::{FAILURE_REASONS, action_for, failure_rule, restart_rule};

/// Reason of a pod that was evicted or deleted.
const DISRUPTED: &str = "PodDisrupted";
/// Reasons for which Volcano also deletes pods.
const LOSS_REASONS: [&str; 2] = ["NodeLost", "Preempted"];

impl LifecyclePolicies {
    /// Writes the effects of the policies into the job.
    pub(crate) fn apply_to_draft(mut self, draft: &mut JobDraft, log: &FieldLog) {
        if let Some(startup) = self.startup.take() {
            draft.deadlines_mut().startup_seconds = Some(startup.value);
        }
        for (path, task) in std::mem::take(&mut self.completing_tasks) {
            set_success(&path, task.as_deref(), draft, log);
        }
        apply_policies(self, draft, log);
    }
}

/// Sets the job's restart scope and rules from the policies.
fn apply_policies(mut policies: LifecyclePolicies, draft: &mut JobDraft, log: &FieldLog) {
    let evicted = policies.evictions.iter().find(|e| e.task.is_none());
    let evicted = evicted.map(|evicted| evicted.scope);
    let (scope, mut last) = choose_scope(policies.failed, evicted);
    let is_elastic = draft.pods.iter().any(|pods| pods.group.is_elastic());
    let scope = match scope {
        Some(less) if less != RestartScope::Gang && has_gang_exception(&policies) => {
            last.push(failure_rule(Vec::new(), less));
            Some(RestartScope::Gang)
        }
        None if is_elastic && has_gang_exception(&policies) => Some(RestartScope::Gang),
        scope => scope,
    };
    // A rule for all reasons takes precedence over the scope, so evictions need a rule before it.
    let by_scope = last.iter().all(|rule| !rule.on_reasons.is_empty());
    let mut rules = eviction_rules(&policies, scope.unwrap_or_default(), by_scope);
    rules.append(&mut policies.rules);
    rules.extend(last);
    if policies.failed.is_none() {
        rules.extend(default_failure_rule(&policies, draft, log));
    }
    // A rule with the default action has no effect, except as an exception from a later rule.
    let default = scope.is_none_or(|scope| scope == RestartScope::Gang);
    if default && rules.iter().all(|r| r.action == RestartAction::Restart) {
        rules.clear();
    }
    if scope.is_some() || !rules.is_empty() {
        let restart = draft.restart_mut();
        restart.scope = scope;
        restart.rules = rules;
    }
}

/// Returns the restart scope of the job, and rules for failures with another scope. The scope
/// `Never` also ends a job after evictions, so it is set only if evictions end the job too.
fn choose_scope(
    failed: Option<RestartScope>,
    evicted: Option<RestartScope>,
) -> (Option<RestartScope>, Vec<RestartRule>) {
    let own_rule = |scope| {
        vec![restart_rule(
            &FAILURE_REASONS,
            Vec::new(),
            action_for(scope),
        )]
    };
    match (failed, evicted) {
        (Some(failed), Some(evicted)) if failed == evicted => (Some(failed), Vec::new()),
        (Some(RestartScope::Never), evicted) => (evicted, own_rule(RestartScope::Never)),
        // A rule can restart less than the scope, but not more.
        (Some(failed), Some(RestartScope::Gang)) => (evicted, own_rule(failed)),
        (failed, _) => (failed, Vec::new()),
    }
}

/// Returns true if a policy restarts the gang as an exception. A rule can express this only if the
/// scope is Gang.
fn has_gang_exception(policies: &LifecyclePolicies) -> bool {
    let mut rules = policies.rules.iter();
    let mut evicted = policies.evictions.iter();
    rules.any(|rule| rule.action == RestartAction::Restart)
        || evicted.any(|evicted| evicted.scope == RestartScope::Gang)
}

/// Returns rules for evictions whose restart scope differs from the scope of the job or of a later
/// rule.
fn eviction_rules(
    policies: &LifecyclePolicies,
    scope: RestartScope,
    by_scope: bool,
) -> Vec<RestartRule> {
    let mut all = policies.evictions.iter();
    let of_job = all.any(|evicted| evicted.task.is_none() && evicted.scope != scope);
    let own = policies.evictions.iter().filter(|evicted| {
        // The rule may be an exception from a later rule.
        let task = evicted.task.as_ref();
        let is_behind = task.is_some_and(|task| of_job || policies.by_task.contains(task));
        evicted.scope != scope || is_behind || !by_scope
    });
    let own = own.map(|EvictionRestart { task, scope, .. }| {
        let mut reasons = vec![DISRUPTED];
        if *scope == RestartScope::Never {
            reasons.extend(LOSS_REASONS);
        }
        let groups = task.clone().into_iter().collect();
        restart_rule(&reasons, groups, action_for(*scope))
    });
    own.collect()
}

/// Returns the rule for tasks without a policy on failures. Volcano does not restart their failed
/// pods.
fn default_failure_rule(
    policies: &LifecyclePolicies,
    draft: &JobDraft,
    log: &FieldLog,
) -> Option<RestartRule> {
    let pods = draft.pods.iter();
    // Groups outside the gang never end the job.
    let unsaid = pods.filter(|p| p.group.is_in_gang() && !policies.by_task.contains(&p.group.name));
    let stays = |policy: &str| policy == "Never";
    let (failing, restarting): (Vec<_>, Vec<_>) = unsaid.partition(|group| {
        let policy = group.restart_policy.as_ref();
        policy.is_some_and(|policy| stays(&policy.value))
    });
    let names = |pods: &[&crate::pod::GroupDraft]| -> Vec<String> {
        let names = pods.iter().map(|pods| pods.group.name.clone());
        names.collect()
    };
    let (failing, restarting) = (names(&failing), names(&restarting));
    if !restarting.is_empty() {
        let reason = format!(
            "do not cover a failed pod of {}, and the kubelet restarts its containers: in Trellis a failure restarts the gang, and counts",
            restarting.join(", ")
        );
        let instead = "set spec.restart.scope to Never if a failure must end the job";
        log.note("spec.policies", None, reason, instead);
    }
    if failing.is_empty() {
        return None;
    }
    let reason = format!(
        "restart no failed pod of {}: in Trellis the job then fails at once, and in Volcano the other pods run until they end",
        failing.join(", ")
    );
    let instead = "set spec.restart.scope to retry (docs/failures.md)";
    log.note("spec.policies", None, reason, instead);
    let is_all = failing.len() == draft.pods.len();
    let groups = if is_all { Vec::new() } else { failing };
    Some(failure_rule(groups, RestartScope::Never))
}
