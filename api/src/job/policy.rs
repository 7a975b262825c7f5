//! What happens over time: restarts, deadlines, success, clean-up.

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// What happens when a pod fails.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::BACKOFF.cel())]
pub struct Restart {
    /// What is restarted. Absent: Gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RestartScope>,
    /// Restarts for the job's own failures. Absent: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::limit)))]
    #[x_kube(validation = rules::LIMIT.cel())]
    pub limit: Option<i64>,
    /// Restarts for the cluster's failures: lost nodes, evictions, refusals of a kubelet. Absent: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::limit)))]
    #[x_kube(validation = rules::LIMIT.cel())]
    pub disruption_limit: Option<i64>,
    /// Seconds before the first restart; doubled each time. Absent: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::backoff_seconds)), custom(rules::backoff(self)))]
    #[x_kube(validation = rules::BACKOFF_SECONDS.cel())]
    pub backoff_seconds: Option<i64>,
    /// Most seconds before a restart. Absent: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::backoff_seconds)))]
    #[x_kube(validation = rules::BACKOFF_SECONDS.cel())]
    pub max_backoff_seconds: Option<i64>,
}

/// What a failure restarts. Gang: all pods, together, within `limit` and
/// `disruptionLimit`; Never: nothing, the job has failed. Absent: Gang.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RestartScope {
    /// All pods of the gang, together.
    #[default]
    Gang,
    /// Nothing: the job has failed.
    Never,
}

/// Limits on time, in seconds.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Deadlines {
    /// Longest wait in the queue before the job counts as failed. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::deadline)))]
    #[x_kube(validation = rules::DEADLINE.cel())]
    pub queue_seconds: Option<i64>,
    /// Longest time from placement until all pods run; then the gang is restarted. Absent: 1800.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::deadline)))]
    #[x_kube(validation = rules::DEADLINE.cel())]
    pub startup_seconds: Option<i64>,
    /// Longest running time, over all attempts; waiting does not count. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::deadline)))]
    #[x_kube(validation = rules::DEADLINE.cel())]
    pub active_seconds: Option<i64>,
}

impl Deadlines {
    /// `startupSeconds`, 1800 where none is given.
    #[must_use]
    pub fn startup_seconds(&self) -> i64 {
        self.startup_seconds.unwrap_or(1800)
    }
}

/// When the job counts as complete.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Success {
    /// Whose success it takes. Absent: All.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<SuccessPolicy>,
}

/// Whose success makes the job's. All: every pod's; Any: one pod's; Leader: that
/// of the pod of rank 0. Absent: All.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SuccessPolicy {
    /// Every pod has succeeded.
    #[default]
    All,
    /// One pod has succeeded.
    Any,
    /// The pod of rank 0 has succeeded.
    Leader,
}

/// What becomes of the pods and of the job once it has ended.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Cleanup {
    /// Finished pods of a complete job. Absent: Keep, until the TTL. Pods that still run are always stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_on_success: Option<PodCleanup>,
    /// Finished pods of a failed job. Absent: Keep, until the TTL. Pods that still run are always stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_on_failure: Option<PodCleanup>,
    /// Seconds after the end when everything that the job made is removed. Absent: 86400.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::ttl)))]
    #[x_kube(validation = rules::TTL.cel())]
    pub ttl_seconds: Option<i64>,
    /// True: the TTL removes the TrainingJob too. Absent: false. Not for jobs that Argo CD tracks: it would create and run them again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_job: Option<bool>,
}

/// What becomes of pods that have finished, of a complete job (`podsOnSuccess`) or
/// of a failed one (`podsOnFailure`). Delete: they go at once; Keep: they stay, with
/// their logs, until `ttlSeconds`. Pods that still run are always stopped. Absent: Keep.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PodCleanup {
    /// They go at once.
    Delete,
    /// They stay, with their logs, until the TTL.
    #[default]
    Keep,
}
