//! A failure of an attempt, and the restart rule that matches the failure.

use trellis_api::Reason;
use trellis_api::job::{RestartAction, RestartRule};

use crate::observed::PodView;

/// The first failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The pod that failed.
    pub pod: String,
    /// The pod's task group. Empty if the failure belongs to no pod.
    pub group: String,
    /// The pod's index in the group.
    pub index: Option<u32>,
    /// The pod's node.
    pub node: Option<String>,
    /// Exit code of the pod's container.
    pub exit_code: Option<i32>,
    /// The last line of the container's termination message.
    pub last_line: Option<String>,
    /// The reason.
    pub reason: Reason,
    /// The kubelet's reason.
    pub kubelet_reason: String,
    /// The failure in words.
    pub message: String,
    /// The budget that a restart counts against.
    pub blame: Blame,
}

/// The budget that a restart counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The job's budget: `restart.limit`.
    Job,
    /// The cluster's budget: `restart.disruptionLimit`.
    Cluster,
    /// No budget: a missing object may still be created.
    Uncounted,
}

impl Fault {
    /// Returns a failure that belongs to no pod.
    pub fn for_gang(reason: Reason, message: String, blame: Blame) -> Self {
        Self {
            pod: String::new(),
            group: String::new(),
            index: None,
            node: None,
            exit_code: None,
            last_line: None,
            reason,
            kubelet_reason: reason.as_str().to_owned(),
            message,
            blame,
        }
    }

    pub(crate) fn for_pod(
        name: &str,
        pod: &PodView,
        reason: Reason,
        message: String,
        blame: Blame,
    ) -> Self {
        Self {
            pod: name.to_owned(),
            group: pod.group.clone(),
            index: Some(pod.index),
            node: pod.node.clone(),
            ..Self::for_gang(reason, message, blame)
        }
    }
}

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
