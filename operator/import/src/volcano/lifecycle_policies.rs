//! Lifecycle policies of a Job. The first matching policy of an owner applies, and the policies of
//! a task come before those of the job.
//!
//! Source of events and actions: volcano-sh/apis, `bus/v1alpha1`. Source of the order:
//! `applyPolicies` of `pkg/controllers/job/job_controller_util.go`. LatticeJobs have the same
//! policies.

use std::collections::BTreeSet;

use serde_json::json;
use trellis_api::job::{RestartRule, RestartScope, TaskGroup};

use crate::field_log::FieldLog;
use crate::fields::Fields;
use crate::pod::ValueWithPath;
use crate::restart_rule::{action_for, failure_rule};

pub(super) const SEE_RULES: &str = "write the rule into spec.restart.rules (docs/failures.md)";

/// Policies of a job and of its tasks.
#[derive(Default)]
pub(crate) struct LifecyclePolicies {
    /// Restart scope for a failed pod, from the job's own policies. None: unset.
    pub(super) failed: Option<RestartScope>,
    /// Tasks whose own policies set a restart scope for failed pods.
    pub(super) by_task: BTreeSet<String>,
    /// Effects of evictions: first those of the tasks, then those of the job.
    pub(super) evictions: Vec<EvictionRestart>,
    /// Rules for exit codes, and for all failures of a task, in the order of their evaluation.
    pub(super) rules: Vec<RestartRule>,
    /// The path of each policy that completes the job, and its task. None: the policy belongs to
    /// the job.
    pub(super) completing_tasks: Vec<(String, Option<String>)>,
    pub(super) startup: Option<ValueWithPath<i64>>,
}

/// The restart scope after an eviction.
pub(super) struct EvictionRestart {
    /// None: every task.
    pub(super) task: Option<String>,
    pub(super) scope: RestartScope,
}

/// Events and exit codes that earlier policies handle.
#[derive(Default)]
struct HandledEvents {
    events: BTreeSet<String>,
    codes: BTreeSet<i32>,
}

impl HandledEvents {
    fn has_event(&self, event: &str) -> bool {
        self.events.contains(event) || self.events.contains(ANY_EVENT)
    }

    /// Claims an event. Returns false if earlier policies handle it.
    fn claim_event(&mut self, event: &str) -> bool {
        let is_left = match event {
            ANY_EVENT => !(self.has_event(FAILED) && self.has_event(EVICTED)),
            event => !self.has_event(event),
        };
        self.events.insert(event.to_owned());
        is_left
    }

    /// Claims an exit code. Returns false if an earlier policy handles it.
    fn claim_code(&mut self, code: i32) -> bool {
        !self.has_event(FAILED) && self.codes.insert(code)
    }
}

const ANY_EVENT: &str = "*";
const FAILED: &str = "PodFailed";
const EVICTED: &str = "PodEvicted";

impl LifecyclePolicies {
    /// Reads the policies of a job, or of a task.
    pub(crate) fn read(owner: &Fields<'_>, group: Option<&TaskGroup>) -> Self {
        let mut found = Self::default();
        let mut before = HandledEvents::default();
        let task = group.map(|group| group.name.as_str());
        for policy in owner.objects("policies") {
            found.read_policy(&policy, &mut before, task);
        }
        found
    }

    /// Adds the policies of a task, which come before those of the job.
    pub(crate) fn add(&mut self, of_task: Self, log: &FieldLog) {
        self.by_task.extend(of_task.by_task);
        let evicted = std::mem::take(&mut self.evictions);
        self.evictions =
            insert_before_job_entries(evicted, of_task.evictions, |e| e.task.is_none());
        let rules = std::mem::take(&mut self.rules);
        self.rules = insert_before_job_entries(rules, of_task.rules, |rule| rule.groups.is_empty());
        self.completing_tasks.extend(of_task.completing_tasks);
        if let Some(startup) = of_task.startup {
            self.set_startup(startup, log);
        }
    }

    fn read_policy(&mut self, policy: &Fields<'_>, before: &mut HandledEvents, task: Option<&str>) {
        let action = policy.text("action").unwrap_or_default();
        let mut events: Vec<String> = policy.text("event").into_iter().collect();
        events.extend(policy.texts("events"));
        let code = policy.small_integer("exitCode");
        if code.is_none() && events.is_empty() {
            policy.note("names no event and no exit code", SEE_RULES);
        }
        let is_pending_alone = code.is_none() && events == ["PodPending"];
        let mut ineffective = Vec::new();
        let mut count = events.len();
        if let Some(code) = code {
            count = count.saturating_add(1);
            if before.claim_code(code) {
                self.read_exit_code(policy, code, &action, task);
            } else {
                ineffective.push(format!("exit code {code}"));
            }
        }
        for event in &events {
            let event = if event == "Any" { ANY_EVENT } else { event };
            let (failed, evicted) = (!before.has_event(FAILED), !before.has_event(EVICTED));
            if !before.claim_event(event) {
                ineffective.push(event.to_owned());
            } else if event == ANY_EVENT {
                self.read_every_event(policy, &action, (failed, evicted), task);
            } else if !(is_pending_alone && self.read_pending(policy, &action)) {
                self.read_event(policy, event, &action, task);
            }
        }
        if !ineffective.is_empty() {
            let reason = format!(
                "has no effect on {}: an earlier policy covers it, and the first one counts",
                ineffective.join(" and ")
            );
            let instead = "put it first if you want it to count";
            if ineffective.len() == count {
                policy.note(reason, instead);
                return;
            }
            policy.log().note(policy.path(), None, reason, instead);
        }
        policy.note_at(
            "timeout",
            "delays the action, and in Trellis restarts wait only for restart.backoffSeconds",
            "set restart.backoffSeconds",
        );
        if action == "AbortJob" {
            policy.note_at(
                "action",
                "leaves a job that Volcano can resume, and in Trellis the job fails, which is final",
                "use spec.suspend to suspend and resume a job",
            );
        }
    }

    fn read_exit_code(&mut self, policy: &Fields<'_>, code: i32, action: &str, task: Option<&str>) {
        let Some(scope) = parse_scope(action) else {
            policy.note(
                "has an action that Trellis does not support for exit codes",
                SEE_RULES,
            );
            return;
        };
        self.rules.push(RestartRule {
            on_exit_codes: vec![code],
            on_reasons: Vec::new(),
            groups: task.map(str::to_owned).into_iter().collect(),
            action: action_for(scope),
        });
    }

    /// Reads a policy for all events. It applies to failures and to evictions, unless an earlier
    /// policy handles them.
    fn read_every_event(
        &mut self,
        policy: &Fields<'_>,
        action: &str,
        (failed, evicted): (bool, bool),
        task: Option<&str>,
    ) {
        if parse_scope(action).is_none() {
            self.read_event(policy, ANY_EVENT, action, task);
            return;
        }
        if failed {
            self.read_event(policy, FAILED, action, task);
        }
        if evicted {
            self.read_event(policy, EVICTED, action, task);
        }
        policy.log().note(
            policy.path(),
            None,
            "covers every event, also the end of a task, and in Trellis only failures and evictions",
            "leave it unchanged, unless the end of a task must do that",
        );
    }

    fn read_event(&mut self, policy: &Fields<'_>, event: &str, action: &str, task: Option<&str>) {
        let owned = task.map(str::to_owned);
        let path = policy.path().to_owned();
        match (event, action, parse_scope(action)) {
            ("TaskCompleted", "CompleteJob", _) => self.completing_tasks.push((path, owned)),
            (FAILED, _, Some(scope)) => self.set_failure_scope(scope, owned),
            (EVICTED, _, Some(scope)) => {
                self.evictions.push(EvictionRestart { task: owned, scope })
            }
            ("Unknown", "RestartJob", _) => {
                // A gang is placed as a whole, so this event cannot happen.
            }
            _ => policy.note(
                format!("combines {event} with {action}, which Trellis does not support"),
                SEE_RULES,
            ),
        }
    }

    fn set_failure_scope(&mut self, scope: RestartScope, task: Option<String>) {
        let Some(task) = task else {
            self.failed = Some(scope);
            return;
        };
        self.by_task.insert(task.clone());
        let rule = failure_rule(vec![task], scope);
        self.rules.push(rule);
    }

    /// Reads a restart of pods that do not run in time. `startupSeconds` has the same effect.
    fn read_pending(&mut self, policy: &Fields<'_>, action: &str) -> bool {
        let timeout = policy.value().get("timeout").and_then(|t| t.as_str());
        let seconds = timeout
            .and_then(parse_seconds)
            .filter(|_| action == "RestartJob");
        if let Some(value) = seconds {
            policy.ignore(&["timeout"]);
            let path = policy.field_path("timeout");
            self.set_startup(ValueWithPath { value, path }, policy.log());
        }
        seconds.is_some()
    }

    /// Sets the startup timeout. The shortest of several timeouts applies, and a note reports the
    /// others.
    fn set_startup(&mut self, startup: ValueWithPath<i64>, log: &FieldLog) {
        let (shorter, longer) = match self.startup.take() {
            Some(other) if other.value <= startup.value => (other, Some(startup)),
            other => (startup, other),
        };
        if let Some(longer) = longer.filter(|longer| longer.value != shorter.value) {
            let reason = "is one of several times, and the gang starts as a whole";
            let instead = format!("{} seconds are used, the shortest", shorter.value);
            log.note(&longer.path, Some(&json!(longer.value)), reason, instead);
        }
        self.startup = Some(shorter);
    }
}

/// Inserts the entries of a task after those of earlier tasks and before those of the job.
fn insert_before_job_entries<T>(
    all: Vec<T>,
    of_task: Vec<T>,
    is_jobs: impl Fn(&T) -> bool,
) -> Vec<T> {
    let (job, tasks): (Vec<T>, Vec<T>) = all.into_iter().partition(is_jobs);
    tasks.into_iter().chain(of_task).chain(job).collect()
}

/// Returns the restart scope of an action.
fn parse_scope(action: &str) -> Option<RestartScope> {
    match action {
        "RestartJob" => Some(RestartScope::Gang),
        "RestartTask" => Some(RestartScope::Group),
        "RestartPod" => Some(RestartScope::Pod),
        "AbortJob" | "TerminateJob" => Some(RestartScope::Never),
        _ => None,
    }
}

/// Parses a duration in the format of Go, such as `1h30m`, into seconds. Parts below a second are
/// dropped.
pub(crate) fn parse_seconds(text: &str) -> Option<i64> {
    let mut total = 0_i64;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(end);
        let unit = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let size = match unit {
            "h" => 3600,
            "m" => 60,
            "s" => 1,
            "ms" | "us" | "ns" => 0,
            _ => return None,
        };
        total = total.checked_add(number.parse::<i64>().ok()?.checked_mul(size)?)?;
        rest = after;
    }
    Some(total).filter(|total| *total > 0)
}

#[cfg(test)]
mod tests {
    use super::parse_seconds;

    #[test]
    fn durations_are_parsed_as_in_go() {
        for (text, expected) in [
            ("30s", Some(30)),
            ("1h30m", Some(5400)),
            ("2m0.5s", None),
            ("1500ms", None),
            ("10", None),
            ("", None),
            ("-5m", None),
        ] {
            assert_eq!(parse_seconds(text), expected, "{text}");
        }
    }
}
