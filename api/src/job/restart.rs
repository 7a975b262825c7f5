//! Restarts: the reaction to a failure, and the limit that it counts against.

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Reaction to a failed pod.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::BACKOFF.to_cel_rule())]
pub struct Restart {
    /// Pods that restart. Absent: Gang; in an elastic group Slice if it has slices, else Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RestartScope>,
    /// Number of restarts after the job's own failures. Absent: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::limit)))]
    #[x_kube(validation = rules::LIMIT.to_cel_rule())]
    pub limit: Option<i64>,
    /// Number of restarts after failures of the cluster: lost nodes, evictions, rejections by a
    /// kubelet. Absent: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::limit)))]
    #[x_kube(validation = rules::LIMIT.to_cel_rule())]
    pub disruption_limit: Option<i64>,
    /// Seconds before the first restart. They double with each restart. Absent: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::backoff_seconds)), custom(rules::backoff(self)))]
    #[x_kube(validation = rules::BACKOFF_SECONDS.to_cel_rule())]
    pub backoff_seconds: Option<i64>,
    /// Largest number of seconds before a restart. Absent: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::backoff_seconds)))]
    #[x_kube(validation = rules::BACKOFF_SECONDS.to_cel_rule())]
    pub max_backoff_seconds: Option<i64>,
    /// Treatment of pods on a lost node, whose kubelet cannot stop them. Absent: Force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_node: Option<LostNode>,
    /// Rules for kinds of failures. The first matching rule decides. A failure that matches no rule
    /// restarts by `scope` and counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[garde(length(max = 16), dive)]
    pub rules: Vec<RestartRule>,
}

impl Restart {
    /// Returns the number of restarts after the job's own failures, by default 3.
    #[must_use]
    pub fn limit(&self) -> i64 {
        self.limit.unwrap_or(3)
    }

    /// Returns the number of restarts after failures of the cluster, by default 100.
    #[must_use]
    pub fn disruption_limit(&self) -> i64 {
        self.disruption_limit.unwrap_or(100)
    }

    /// Returns the seconds before the first restart, by default 10.
    #[must_use]
    pub fn backoff_seconds(&self) -> i64 {
        self.backoff_seconds.unwrap_or(10)
    }

    /// Returns the largest number of seconds before a restart, by default 300.
    #[must_use]
    pub fn max_backoff_seconds(&self) -> i64 {
        self.max_backoff_seconds.unwrap_or(300)
    }
}

/// Pods that restart after a failure. Gang: all pods, together; Group: the pods of the task group,
/// while other groups go on; Slice: all pods of the failed pod's slice (first layer), while other
/// slices go on; Pod: only the failed pod; Never: none, and the job has failed. Each restart counts
/// once against `limit` or `disruptionLimit`. A lost or unhealthy node restarts its gang; with Slice,
/// another slice replaces the lost slice if one runs. Absent: Gang; in an elastic group Slice if it
/// has slices, else Pod.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RestartScope {
    /// All pods of the gang, together.
    #[default]
    Gang,
    /// All pods of the task group, together.
    Group,
    /// All pods of the slice, together. In a group without slices, as Gang.
    Slice,
    /// Only the failed pod.
    Pod,
    /// No pod: the job has failed.
    Never,
}

/// Treatment of the pods of a lost node. Force: the operator force-deletes them once the node has
/// been NotReady for 60 s, and the scheduler places the gang elsewhere; Wait: the operator waits
/// for them without limit. Absent: Force.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LostNode {
    /// The operator force-deletes the pods. A rank that is only cut off from the API may still
    /// write.
    #[default]
    Force,
    /// The operator waits until the node returns, or until an administrator deletes it or taints it
    /// as out of service.
    Wait,
}

/// Reaction to one kind of failure. A rule matches if all of its conditions match; a rule without
/// conditions matches every failure.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct RestartRule {
    /// Exit codes: the failed container ended with one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[garde(length(max = 32), inner(custom(rules::exit_code)))]
    #[x_kube(validation = rules::EXIT_CODES.to_cel_rule())]
    pub on_exit_codes: Vec<i32>,
    /// Reasons of a pod's failure: words of docs/reasons.md, or of the kubelet (`OOMKilled`,
    /// `Evicted`, `OutOfcpu`, ...).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 128)))]
    #[garde(length(max = 32), inner(custom(rules::reason_word)))]
    #[x_kube(validation = rules::REASON_WORDS.to_cel_rule())]
    pub on_reasons: Vec<String>,
    /// Names of task groups: the pod belongs to one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 24)))]
    #[garde(length(max = 16))]
    pub groups: Vec<String>,
    /// Reaction to a failure that matches.
    pub action: RestartAction,
}

/// Reaction to a failure. Restart: as without the rule, it counts against `limit` (against
/// `disruptionLimit` if the cluster caused it); RestartWithoutCounting: it counts against neither,
/// after 10 s at least; RestartGroup, RestartSlice and RestartPod: as Restart, for the task group,
/// the slice or only the pod, while other pods go on; Fail: the job has failed; Ignore: the pod
/// stays as it is and the other pods go on.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartAction {
    /// The pods of `scope` restart, and the restart counts.
    Restart,
    /// The pods of `scope` restart, and the restart counts against no limit.
    RestartWithoutCounting,
    /// The pods of the task group restart, and the restart counts.
    RestartGroup,
    /// The pods of the slice restart, and the restart counts.
    RestartSlice,
    /// The pod restarts, and the restart counts.
    RestartPod,
    /// The job has failed, regardless of `limit`.
    Fail,
    /// The other pods go on. The pod counts as finished for the success of the job.
    Ignore,
}
