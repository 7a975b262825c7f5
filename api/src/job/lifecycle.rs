//! Deadlines, success condition and clean-up of a job.

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Limits on time, in seconds.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Deadlines {
    /// Longest wait in the queue. A job that waits longer has failed. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::deadline)))]
    #[x_kube(validation = rules::DEADLINE.to_cel_rule())]
    pub queue_seconds: Option<i64>,
    /// Longest time from placement until all pods run. After it, the gang restarts. Absent: 1800.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::deadline)))]
    #[x_kube(validation = rules::DEADLINE.to_cel_rule())]
    pub startup_seconds: Option<i64>,
    /// Longest running time, over all attempts, without the time in the queue. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::deadline)))]
    #[x_kube(validation = rules::DEADLINE.to_cel_rule())]
    pub active_seconds: Option<i64>,
}

impl Deadlines {
    /// Returns `startupSeconds`, by default 1800.
    #[must_use]
    pub fn startup_seconds(&self) -> i64 {
        self.startup_seconds.unwrap_or(1800)
    }
}

/// Condition under which the job is complete.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Success {
    /// Pods that must succeed. Absent: Leader with framework MPI or Ray or a group of role Server,
    /// else All.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<SuccessPolicy>,
}

/// Pods that must succeed for the job to be complete. All: every pod; Any: one pod; Leader: the pod
/// of rank 0. Absent: All, or Leader with framework MPI or Ray or a group of role Server, since such
/// jobs have pods that never end by themselves.
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

/// Removal of the job's pods and other children after its end.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Cleanup {
    /// Removal of the finished pods of a complete job. Running pods are always stopped. Absent:
    /// Keep, until `childrenTTLSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_on_success: Option<PodCleanup>,
    /// Removal of the finished pods of a failed job. Running pods are always stopped. Absent: Keep,
    /// until `childrenTTLSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_on_failure: Option<PodCleanup>,
    /// Seconds from the job's end until the operator deletes its pods, its Service and its other
    /// children. A smaller `ttlSecondsAfterFinished` deletes them earlier. Absent: as
    /// `ttlSecondsAfterFinished`, else 86400.
    #[serde(rename = "childrenTTLSeconds", skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::ttl)))]
    #[x_kube(validation = rules::TTL.to_cel_rule())]
    pub children_ttl_seconds: Option<i64>,
}

/// Removal of the finished pods of a complete job (`podsOnSuccess`) or of a failed one
/// (`podsOnFailure`). Delete: the operator deletes them at once; Keep: they stay, with their logs,
/// until `childrenTTLSeconds`. Running pods are always stopped. Absent: Keep.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PodCleanup {
    /// The operator deletes finished pods at once.
    Delete,
    /// Finished pods stay, with their logs, until the TTL.
    #[default]
    Keep,
}
