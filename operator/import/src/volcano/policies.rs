//! Lifecycle policies of a Job: what an event does, as restart rules and success policy.
//!
//! Events and actions: volcano-sh/apis, `bus/v1alpha1`. LatticeJobs have the same.

use trellis_api::job::{
    Framework, RestartAction, RestartRule, RestartScope, Role, SuccessPolicy, TaskGroup,
};

use crate::draft::Draft;
use crate::fields::Fields;
use crate::log::Log;

/// Reason of a pod that was evicted (docs/failures.md).
const EVICTED: &str = "Evicted";

/// What the policies of a job and of its tasks say.
#[derive(Default)]
pub(crate) struct Policies {
    scope: Option<RestartScope>,
    /// What happens on an eviction, and where it is said.
    evicted: Vec<(String, Option<String>, RestartScope)>,
    rules: Vec<RestartRule>,
    /// Tasks whose end is the job's, and where it is said. None: every task's.
    completes: Vec<(String, Option<String>)>,
    startup: Option<i64>,
}

impl Policies {
    /// Reads those of a job, or of a task.
    pub(crate) fn read(owner: &Fields<'_>, group: Option<&TaskGroup>) -> Self {
        let mut found = Self::default();
        let task = group.map(|group| group.name.as_str());
        for policy in owner.objects("policies") {
            found.one(&policy, task);
        }
        found
    }

    /// Adds those of a task, which go before the job's.
    pub(crate) fn add(&mut self, of_task: Self) {
        self.evicted.extend(of_task.evicted);
        let of_job = std::mem::replace(&mut self.rules, of_task.rules);
        // The job's own rules have no groups, and stand last.
        let (tasks, job): (Vec<_>, Vec<_>) = of_job.into_iter().partition(|r| !r.groups.is_empty());
        let own = std::mem::take(&mut self.rules);
        self.rules = tasks.into_iter().chain(own).chain(job).collect();
        self.completes.extend(of_task.completes);
        self.startup = self.startup.or(of_task.startup);
    }

    fn one(&mut self, policy: &Fields<'_>, task: Option<&str>) {
        let action = policy.text("action").unwrap_or_default();
        let mut events: Vec<String> = policy.text("event").into_iter().collect();
        events.extend(policy.texts("events"));
        let code = policy.small("exitCode");
        if code.is_none() && events.is_empty() {
            policy.note("names no event and no exit code", SEE_RULES);
        }
        if let Some(code) = code {
            self.exit_code(policy, code, &action, task);
        }
        for event in &events {
            self.event(policy, event, &action, task);
        }
        policy.note_at(
            "timeout",
            "puts the action off, and here restarts wait for restart.backoffSeconds alone",
            "set restart.backoffSeconds",
        );
        if action == "AbortJob" {
            policy.note_at(
                "action",
                "can be resumed there; here the job has failed, which is final",
                "suspend and resume a job by spec.suspend",
            );
        }
    }

    fn exit_code(&mut self, policy: &Fields<'_>, code: i32, action: &str, task: Option<&str>) {
        let Some(action) = rule_action(action) else {
            policy.note(
                "has an action that an exit code cannot have here",
                SEE_RULES,
            );
            return;
        };
        self.rules.push(RestartRule {
            on_exit_codes: vec![code],
            on_reasons: Vec::new(),
            groups: task.map(str::to_owned).into_iter().collect(),
            action,
        });
    }

    fn event(&mut self, policy: &Fields<'_>, event: &str, action: &str, task: Option<&str>) {
        let owned = task.map(str::to_owned);
        match (event, action, scope(action)) {
            ("TaskCompleted", "CompleteJob", _) => {
                self.completes.push((policy.path().to_owned(), owned));
            }
            ("PodFailed", _, Some(scope)) => self.failed(scope, action, owned),
            ("PodEvicted", _, Some(scope)) => {
                self.evicted.push((policy.path().to_owned(), owned, scope));
            }
            ("*" | "Any", _, Some(scope)) => {
                self.evicted
                    .push((policy.path().to_owned(), owned.clone(), scope));
                self.failed(scope, action, owned);
            }
            ("PodPending", "RestartJob", _) if self.pending(policy) => {}
            ("Unknown", "RestartJob", _) => {
                // The gang is placed whole or not at all, so that this cannot happen.
            }
            _ => policy.note(
                format!("{event} with {action} is nothing that a failure or an end does here"),
                SEE_RULES,
            ),
        }
    }

    fn failed(&mut self, scope: RestartScope, action: &str, task: Option<String>) {
        let (Some(task), Some(action)) = (task.clone(), rule_action(action)) else {
            self.scope.get_or_insert(scope);
            return;
        };
        self.rules.push(RestartRule {
            on_exit_codes: Vec::new(),
            on_reasons: Vec::new(),
            groups: vec![task],
            action,
        });
    }

    /// A pod that does not run in time has the gang restarted here too.
    fn pending(&mut self, policy: &Fields<'_>) -> bool {
        let timeout = policy.value().get("timeout").and_then(|t| t.as_str());
        let seconds = timeout.and_then(seconds);
        if seconds.is_some() {
            policy.quiet(&["timeout"]);
            self.startup = seconds;
        }
        seconds.is_some()
    }

    /// Puts all of it into the job.
    pub(crate) fn settle(mut self, draft: &mut Draft, log: &Log) {
        self.evictions(log);
        let default = self.scope.is_none_or(|scope| scope == RestartScope::Gang);
        // A rule that says what is done anyway says nothing.
        let says = |rule: &RestartRule| {
            let plain = rule.on_exit_codes.is_empty() && rule.on_reasons.is_empty();
            !(plain && default && rule.action == RestartAction::Restart)
        };
        // It may be an exception from one behind it.
        if !self.rules.iter().any(says) {
            self.rules.clear();
        }
        if self.scope.is_some() || !self.rules.is_empty() {
            let restart = draft.restart();
            restart.scope = self.scope;
            restart.rules = std::mem::take(&mut self.rules);
        }
        if let Some(seconds) = self.startup {
            draft.deadlines().startup_seconds = Some(seconds);
        }
        for (path, task) in std::mem::take(&mut self.completes) {
            complete(&path, task.as_deref(), draft, log);
        }
    }

    /// Evictions restart what failures do, unless a rule says otherwise.
    fn evictions(&mut self, log: &Log) {
        let scope = self.scope.unwrap_or_default();
        let mut rules = Vec::new();
        for (path, task, wanted) in std::mem::take(&mut self.evicted) {
            let action = match wanted {
                wanted if wanted == scope => continue,
                RestartScope::Gang => {
                    let why = "restarts the whole job where a pod is evicted, and here that does what any failure does";
                    log.note(
                        &path,
                        None,
                        why,
                        "set spec.restart.scope to Gang if that is too little",
                    );
                    continue;
                }
                RestartScope::Group => RestartAction::RestartGroup,
                RestartScope::Pod => RestartAction::RestartPod,
                RestartScope::Never => RestartAction::Fail,
            };
            rules.push(RestartRule {
                on_exit_codes: Vec::new(),
                on_reasons: vec![EVICTED.to_owned()],
                groups: task.into_iter().collect(),
                action,
            });
        }
        rules.append(&mut self.rules);
        self.rules = rules;
    }
}

const SEE_RULES: &str = "say what is meant in spec.restart.rules (docs/failures.md)";

/// The end of a task is the job's.
fn complete(path: &str, task: Option<&str>, draft: &mut Draft, log: &Log) {
    // The end of the only task is the end of all pods.
    if draft.pods.len() == 1 {
        return;
    }
    let Some(task) = task else {
        let why = "completes the job with whichever task is done first, which cannot be said";
        log.note(path, None, why, CHOOSE);
        return;
    };
    let at = draft.pods.iter().position(|pods| pods.group.name == task);
    let Some(group) = at.and_then(|at| draft.pods.get(at)).map(|pods| &pods.group) else {
        return;
    };
    if group.replicas() != 1 {
        let why = "completes the job with the end of a task of several pods, which cannot be said";
        log.note(path, None, why, CHOOSE);
        return;
    }
    if !super::task::leads(group, &draft.pods) {
        let has_leader = draft.pods.iter().any(|pods| pods.group.role().leads());
        let has_role = group.role.is_some() || draft.spec.framework == Some(Framework::MPI);
        if has_leader || has_role || !group.is_in_gang() {
            let why = "completes the job with the end of a pod that does not have rank 0";
            log.note(path, None, why, CHOOSE);
            return;
        }
        let why = "completes the job with the end of this task: it has rank 0 here, by the role Coordinator";
        log.note(
            path,
            None,
            why,
            "see that the others do not count on their old ranks",
        );
    }
    let mut pods = draft.pods.iter_mut();
    if let Some(pods) = pods.find(|pods| pods.group.name == task && pods.group.role.is_none()) {
        pods.group.role = Some(Role::Coordinator);
    }
    draft.success(SuccessPolicy::Leader);
}

const CHOOSE: &str = "choose All, Any or Leader in spec.success.policy";

/// What of a job an action restarts.
fn scope(action: &str) -> Option<RestartScope> {
    match action {
        "RestartJob" => Some(RestartScope::Gang),
        "RestartTask" => Some(RestartScope::Group),
        "RestartPod" => Some(RestartScope::Pod),
        "AbortJob" | "TerminateJob" => Some(RestartScope::Never),
        _ => None,
    }
}

fn rule_action(action: &str) -> Option<RestartAction> {
    Some(match scope(action)? {
        RestartScope::Gang => RestartAction::Restart,
        RestartScope::Group => RestartAction::RestartGroup,
        RestartScope::Pod => RestartAction::RestartPod,
        RestartScope::Never => RestartAction::Fail,
    })
}

/// Seconds of a duration as Go writes it, such as `1h30m`; parts below a second are left out.
fn seconds(text: &str) -> Option<i64> {
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
    use super::seconds;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, wanted) in [
            ("30s", Some(30)),
            ("1h30m", Some(5400)),
            ("2m0.5s", None),
            ("1500ms", None),
            ("10", None),
            ("", None),
            ("-5m", None),
        ] {
            assert_eq!(seconds(text), wanted, "{text}");
        }
    }
}
