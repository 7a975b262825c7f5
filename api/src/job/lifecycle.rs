//! What happens over time: deadlines, success, clean-up.

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
    /// Longest wait in the queue before the job counts as failed. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::deadline)))]
    #[x_kube(validation = rules::DEADLINE.to_cel_rule())]
    pub queue_seconds: Option<i64>,
    /// Longest time from placement until all pods run; then the gang is restarted. Absent: 1800.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::deadline)))]
    #[x_kube(validation = rules::DEADLINE.to_cel_rule())]
    pub startup_seconds: Option<i64>,
    /// Longest running time, over all attempts; waiting does not count. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::deadline)))]
    #[x_kube(validation = rules::DEADLINE.to_cel_rule())]
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
    /// Whose success it takes. Absent: Leader with a group of role Launcher or Server, else All.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<SuccessPolicy>,
}

/// Pods that must succeed for the job to be complete. All: every pod; Any: one pod; Leader: the pod
/// of rank 0. Absent: All, or Leader where a group has the role Launcher or Server, since pods of
/// such a job never end by themselves.
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

/// Removal of the pods, and of all else that the job has made, after its end.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Cleanup {
    /// Finished pods of a complete job. Absent: Keep, until `childrenTTLSeconds`. Pods that still
    /// run are always stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_on_success: Option<PodCleanup>,
    /// Finished pods of a failed job. Absent: Keep, until `childrenTTLSeconds`. Pods that still run
    /// are always stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_on_failure: Option<PodCleanup>,
    /// Seconds after the job's end until its pods, its Service and its other children are deleted.
    /// `ttlSecondsAfterFinished` deletes them too, if it is less. Absent: as
    /// `ttlSecondsAfterFinished`, else 86400.
    #[serde(rename = "childrenTTLSeconds", skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::ttl)))]
    #[x_kube(validation = rules::TTL.to_cel_rule())]
    pub children_ttl_seconds: Option<i64>,
}

/// Removal of the finished pods of a complete job (`podsOnSuccess`) or of a failed one
/// (`podsOnFailure`). Delete: they go at once; Keep: they stay, with
/// their logs, until `childrenTTLSeconds`. Pods that still run are always stopped. Absent: Keep.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PodCleanup {
    /// They go at once.
    Delete,
    /// They stay, with their logs, until the TTL.
    #[default]
    Keep,
}
