//! What Trellis says about a job.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Reason;

/// Observed state of a TrainingJob, written by one manager in one patch.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TrainingJobStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word for the state; the row of the conditions' table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<JobPhase>,
    /// The one current reason, from the list in docs/reasons.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The reason in words, with the numbers of the moment when it became true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Queue that the job is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Running and finished pods of all pods: `3/4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Pods by what they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodCounts>,
    /// GPUs that the whole gang holds or asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<i64>,
    /// Nodes that the gang is placed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// Number of the current attempt, from 1. It never falls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// Restarts that counted against `restart.limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<i64>,
    /// Restarts that counted against `restart.disruptionLimit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruptions: Option<i64>,
    /// When the gang was first given its place: from then on what may change is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted_time: Option<Time>,
    /// When the job last began to wait: its creation, or its resumption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_time: Option<Time>,
    /// When the current attempt was placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_time: Option<Time>,
    /// When all pods of the current attempt first ran together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_time: Option<Time>,
    /// When the job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Running seconds of earlier attempts; the current one counts from `runningTime`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_seconds: Option<i64>,
    /// Not placed again before this time: the back-off after a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_time: Option<Time>,
    /// What ended the last attempt that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
    /// What the job was compiled into, pods as one entry a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compiled: Vec<CompiledObject>,
    /// The conditions, all of them from the first status on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The states of a job.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord,
)]
pub enum JobPhase {
    /// The spec is invalid or policy denies it.
    Refused,
    /// Something that the job names is not there yet.
    Waiting,
    /// Someone must act: a foreign object has a child's name, an image cannot be pulled.
    Blocked,
    /// In its queue.
    Queued,
    /// Placed; not all pods run yet.
    Starting,
    /// An attempt has ended; the next one is on its way.
    Restarting,
    /// All pods run.
    Running,
    /// Stopped by the user.
    Suspended,
    /// Ended well. Final.
    Complete,
    /// Ended badly. Final.
    Failed,
}

impl JobPhase {
    /// True if the job has ended, for good.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }
}

/// Pods by what they do.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodCounts {
    /// Pods of the whole job.
    pub total: i64,
    /// Pods whose containers run.
    pub running: i64,
    /// Pods that ended with exit code 0.
    pub succeeded: i64,
    /// Pods that failed.
    pub failed: i64,
}

/// What ended an attempt.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// The first pod that failed.
    pub pod: String,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Exit code of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it failed, in the words of the kubelet or of Trellis.
    pub reason: String,
    /// The attempt that it belonged to.
    pub attempt: i64,
    /// When Trellis saw it.
    pub time: Time,
}

/// One object, or one group of pods, that the job was compiled into.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CompiledObject {
    /// API version of the object.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name; of pods: `<job>-<group>-0..<last>`.
    pub name: String,
    /// Hash of what was compiled.
    pub hash: String,
    /// True if it is there as compiled; of pods: if all of them run or have succeeded.
    pub ready: bool,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
