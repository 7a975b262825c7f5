//! Restarts: what a failure does, and what it counts against.

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// What happens when a pod fails.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::BACKOFF.to_cel_rule())]
pub struct Restart {
    /// What is restarted. Absent: Gang, but Pod for what an elastic group can do without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RestartScope>,
    /// Restarts for the job's own failures. Absent: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::limit)))]
    #[x_kube(validation = rules::LIMIT.to_cel_rule())]
    pub limit: Option<i64>,
    /// Restarts for the cluster's failures: lost nodes, evictions, refusals of a kubelet. Absent:
    /// 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::limit)))]
    #[x_kube(validation = rules::LIMIT.to_cel_rule())]
    pub disruption_limit: Option<i64>,
    /// Seconds before the first restart; doubled each time. Absent: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::backoff_seconds)), custom(rules::backoff(self)))]
    #[x_kube(validation = rules::BACKOFF_SECONDS.to_cel_rule())]
    pub backoff_seconds: Option<i64>,
    /// Most seconds before a restart. Absent: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::backoff_seconds)))]
    #[x_kube(validation = rules::BACKOFF_SECONDS.to_cel_rule())]
    pub max_backoff_seconds: Option<i64>,
    /// What is done about pods of a node that is lost, which nobody can stop. Absent: Force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_node: Option<LostNode>,
    /// Rules for kinds of failures; the first one that matches decides. A failure that matches none
    /// restarts by `scope` and counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[garde(length(max = 16), dive)]
    pub rules: Vec<RestartRule>,
}

impl Restart {
    /// Restarts for the job's own failures, 3 where nothing is given.
    #[must_use]
    pub fn limit(&self) -> i64 {
        self.limit.unwrap_or(3)
    }

    /// Restarts for the cluster's failures, 100 where nothing is given.
    #[must_use]
    pub fn disruption_limit(&self) -> i64 {
        self.disruption_limit.unwrap_or(100)
    }

    /// Seconds before the first restart, 10 where nothing is given.
    #[must_use]
    pub fn backoff_seconds(&self) -> i64 {
        self.backoff_seconds.unwrap_or(10)
    }

    /// Most seconds before a restart, 300 where nothing is given.
    #[must_use]
    pub fn max_backoff_seconds(&self) -> i64 {
        self.max_backoff_seconds.unwrap_or(300)
    }
}

/// Pods that restart after a failure. Gang: all pods, together; Group: those of the task group,
/// while other groups go on; Pod: the pod alone; Never: none, and the job has failed. Each restart
/// counts once against `limit` or `disruptionLimit`. A lost or unhealthy node always restarts its
/// gang. Absent: Gang, but Pod for pods that an elastic group can do without.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RestartScope {
    /// All pods of the gang, together.
    #[default]
    Gang,
    /// All pods of the task group, together.
    Group,
    /// The pod.
    Pod,
    /// Nothing: the job has failed.
    Never,
}

/// Treatment of the pods of a lost node. Force: the operator deletes them by force once the node
/// has been lost for 60 s, and the gang is placed elsewhere; Wait: the operator waits for them
/// without end. Absent: Force.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LostNode {
    /// They are deleted by force. A rank that is only cut off may still write.
    #[default]
    Force,
    /// The node comes back, or whoever knows that it is off deletes it, or taints it as out of
    /// service.
    Wait,
}

/// What a failure of some kind does. It matches where all of its conditions do; without any it
/// matches every failure.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct RestartRule {
    /// The container that failed ended with one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[garde(length(max = 32), inner(custom(rules::exit_code)))]
    #[x_kube(validation = rules::EXIT_CODES.to_cel_rule())]
    pub on_exit_codes: Vec<i32>,
    /// Reasons of a pod's failure that match: words of docs/reasons.md, or of the kubelet
    /// (`OOMKilled`, `EvictionRestart`, `OutOfcpu`, ...).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 128)))]
    #[garde(length(max = 32), inner(custom(rules::reason_word)))]
    #[x_kube(validation = rules::REASON_WORDS.to_cel_rule())]
    pub on_reasons: Vec<String>,
    /// The pod is of one of these task groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 24)))]
    #[garde(length(max = 16))]
    pub groups: Vec<String>,
    /// Effect of a failure that matches.
    pub action: RestartAction,
}

/// What a failure does. Restart: as without the rule, it counts against `limit` (against
/// `disruptionLimit` if it is the cluster's); RestartWithoutCounting: it counts against neither,
/// after 10 s at least; RestartGroup and RestartPod: as Restart, of the task group or of the
/// pod alone, while the others go on; Fail: the job has failed; Ignore: the pod stays as it is and
/// the others go on.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartAction {
    /// What `scope` says is restarted, and that counts.
    Restart,
    /// What `scope` says is restarted, and that counts against no limit.
    RestartWithoutCounting,
    /// The pods of the task group are restarted, and that counts.
    RestartGroup,
    /// The pod is restarted, and that counts.
    RestartPod,
    /// The job has failed, whatever `limit` says.
    Fail,
    /// The others go on. For the success of the job the pod counts as one that is done.
    Ignore,
}
