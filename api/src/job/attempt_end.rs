//! How an attempt of a job ended: preempted, failed, or on a node that the job then avoids.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Reason;

/// The last eviction of a job, by preemption or by a drain.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LastPreemption {
    /// The preemptor and the reason.
    pub message: String,
    /// The attempt that ended by the eviction.
    pub attempt: i64,
    /// Time at which the operator saw the eviction.
    pub time: Time,
}

/// Cause of a failed attempt.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// The first pod that failed. Empty: no pod caused the failure.
    pub pod: String,
    /// Node of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Exit code of the pod's container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Reason for the failure, in the words of the kubelet or of Trellis.
    pub reason: String,
    /// Last line of the pod's termination message, else of its log. For a pod that did not start:
    /// the kubelet's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// The attempt that the pod belonged to.
    pub attempt: i64,
    /// Time at which the operator saw the failure.
    pub time: Time,
}

/// A node that the job avoids.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedNode {
    /// Name of the node.
    pub node: String,
    /// Reason for avoiding the node: a word of docs/reasons.md.
    pub reason: Reason,
    /// Number of consecutive attempts that ended because of the node.
    pub times: i64,
    /// Last of these attempts.
    pub attempt: i64,
    /// Time until which the job avoids the node. The scheduler then tries it once more.
    pub until: Time,
}
