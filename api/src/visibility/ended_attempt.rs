//! An attempt of a job that has ended.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ServedResource, resource};
use crate::Reason;
use crate::job::{JobPhase, LastFailure};

/// An attempt of a TrainingJob that has ended: when it held its place, on how many GPUs, and how it
/// ended. The leader remembers attempts of the last 24 hours.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct EndedAttempt {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// Namespace of the job. The name is `<job>.<attempt>.<time>`, with the time of its end in
    /// milliseconds since 1970.
    pub metadata: ObjectMeta,
    /// Name of the job.
    pub job: String,
    /// Uid of the job.
    pub uid: String,
    /// Number of the attempt, from 1.
    pub attempt: i64,
    /// Queue of the job.
    pub queue: String,
    /// User who submitted the job, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Number of devices that the attempt held.
    pub gpus: i64,
    /// Number of nodes that the attempt held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_count: Option<i64>,
    /// Time at which the attempt was placed.
    pub placed: Time,
    /// Time at which all its pods first ran together. Absent: they never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<Time>,
    /// Time at which the attempt ended.
    pub ended: Time,
    /// Phase of the job after the attempt. Absent: the job was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<JobPhase>,
    /// Reason of the job after the attempt. Absent: the job was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// How the attempt ended, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Cause of a failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<LastFailure>,
    /// True if the attempt was preempted or drained. The message names the preemptor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preempted: bool,
    /// Time of the last checkpoint, if the job reports checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Time>,
}

resource!(
    EndedAttempt,
    NamespaceResourceScope,
    ServedResource {
        kind: "EndedAttempt",
        plural: "endedattempts",
        singular: "endedattempt",
        short_names: &["ea"],
        namespaced: true,
        verbs: &["get", "list"],
    }
);
