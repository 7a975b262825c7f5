//! Effects of failures and evictions, as restart scope and rules.
//!
//! Without a policy Volcano does not restart a failed pod, and recreates a deleted one
//! (`pkg/controllers/job/state/running.go`, `syncJob`).

use trellis_api::job::{RestartAction, RestartRule, RestartScope};

use super::lifecycle_policies::{EvictionRestart, LifecyclePolicies};
use super::restart_rule::{FAILURE_REASONS, action_for, failure_rule, restart_rule};
use super::success::set_success;
use crate::draft::JobDraft;
use crate::field_log::FieldLog;

/// Reason of a pod that was evicted or deleted.
const DISRUPTED: &str = "PodDisrupted";
/// Reasons for which Volcano's pods are deleted too.
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
    // A rule for all that happens goes before the scope, and evictions need one before it.
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

/// The restart scope of the job, and rules for failures that restart another scope. The scope
/// `Never` also ends a job after evictions, so it is set only if evictions end the job too.
fn choose_scope(
    failed: Option<RestartScope>,
    evicted: Option<RestartScope>,
) -> (Option<RestartScope>, Vec<RestartRule>) {
    let apart = |scope| {
        vec![restart_rule(
            &FAILURE_REASONS,
            Vec::new(),
            action_for(scope),
        )]
    };
    match (failed, evicted) {
        (Some(failed), Some(evicted)) if failed == evicted => (Some(failed), Vec::new()),
        (Some(RestartScope::Never), evicted) => (evicted, apart(RestartScope::Never)),
        // A rule can restart less than the scope, and not more.
        (Some(failed), Some(RestartScope::Gang)) => (evicted, apart(failed)),
        (failed, _) => (failed, Vec::new()),
    }
}

/// True if a policy restarts the gang as an exception, which a rule can express only through the
/// scope.
fn has_gang_exception(policies: &LifecyclePolicies) -> bool {
    let mut rules = policies.rules.iter();
    let mut evicted = policies.evictions.iter();
    rules.any(|rule| rule.action == RestartAction::Restart)
        || evicted.any(|evicted| evicted.scope == RestartScope::Gang)
}

/// Rules for evictions whose restart scope differs from the job's, or from a later rule's.
fn eviction_rules(
    policies: &LifecyclePolicies,
    scope: RestartScope,
    by_scope: bool,
) -> Vec<RestartRule> {
    let mut all = policies.evictions.iter();
    let of_job = all.any(|evicted| evicted.task.is_none() && evicted.scope != scope);
    let own = policies.evictions.iter().filter(|evicted| {
        // It may be an exception from a rule behind it.
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

/// The rule for tasks without a policy on failures: Volcano does not restart their failed pods.
fn default_failure_rule(
    policies: &LifecyclePolicies,
    draft: &JobDraft,
    log: &FieldLog,
) -> Option<RestartRule> {
    let pods = draft.pods.iter();
    // Groups outside the gang never end the job.
    let unsaid = pods.filter(|p| p.group.is_in_gang() && !policies.by_task.contains(&p.group.name));
    let stays = |policy: &str| policy == "Never";
    let (last, again): (Vec<_>, Vec<_>) = unsaid.partition(|pods| {
        let policy = pods.restart_policy.as_ref();
        policy.is_some_and(|policy| stays(&policy.value))
    });
    let names = |pods: &[&crate::pod::GroupDraft]| -> Vec<String> {
        let names = pods.iter().map(|pods| pods.group.name.clone());
        names.collect()
    };
    let (last, again) = (names(&last), names(&again));
    if !again.is_empty() {
        let why = format!(
            "do not cover a failed pod of {}, and the kubelet restarts its containers: in Trellis a failure restarts the gang, and counts",
            again.join(", ")
        );
        let instead = "set spec.restart.scope to Never if a failure must end the job";
        log.note("spec.policies", None, why, instead);
    }
    if last.is_empty() {
        return None;
    }
    let why = format!(
        "restart no failed pod of {}: in Trellis the job then fails at once, and in Volcano the other pods run until they end",
        last.join(", ")
    );
    let instead = "set spec.restart.scope to retry (docs/failures.md)";
    log.note("spec.policies", None, why, instead);
    let is_all = last.len() == draft.pods.len();
    let groups = if is_all { Vec::new() } else { last };
    Some(failure_rule(groups, RestartScope::Never))
}
