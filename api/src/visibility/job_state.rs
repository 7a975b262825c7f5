//! A job that is pending or placed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ServedResource, resource};
use crate::job::JobPhase;
use crate::{Quantity, Reason};

/// A pending or placed TrainingJob or external gang: its position in the queue, its requests, and
/// its expected start and end.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct JobState {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// Namespace, name and creation time of the job. External pods have the name `podgroup.<name>`
    /// or `pod.<name>`.
    pub metadata: ObjectMeta,
    /// Queue of the job.
    pub queue: String,
    /// User who submitted the job, if known: the user in `trellis.dev/requested-by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Priority of the job: higher goes first.
    pub priority: i32,
    /// Share of the job's queue, as in `TrainingQueue.status.share`. The queue with the smallest
    /// share has the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_share: Option<String>,
    /// Phase of the job, as in its status. Absent: the job has no status yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<JobPhase>,
    /// Current reason, as in the job's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The reason in words, with the numbers at the time when it became true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Number of the current attempt, from 1, as in the job's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// Position in the order of its queue, from 1. Fairness between queues and backfill may start
    /// the job before jobs in front of it. Absent: the job is placed, or its victims are leaving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// Number of devices that the job requests or holds, over all countable resources.
    pub gpus: i64,
    /// Number of pods that the job requests or holds.
    pub pods: i64,
    /// Time since which the job has its position in the queue.
    pub submitted: Time,
    /// Time since which the job has been pending, or placed.
    pub since: Time,
    /// Expected start time, if no further job passes it and running jobs end as expected. Absent:
    /// unknown, or the job is placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Time>,
    /// Expected end time. Absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<Time>,
    /// Number of nodes that the job is placed on. Absent: the job is not placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_count: Option<u32>,
    /// First of these nodes by name, at most [`JobState::MAX_NODES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Amounts of its queue's quota that the job holds, with those of its surplus pods. Empty: the job
    /// is not placed, or its queue has no quota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<QuotaHold>,
}

/// An amount of a queue's quota.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct QuotaHold {
    /// Flavor of the quota.
    pub flavor: String,
    /// Resource of the quota.
    pub resource: String,
    /// The amount.
    pub amount: Quantity,
}

impl JobState {
    /// Largest number of listed nodes. It keeps a list of ten thousand jobs small.
    pub const MAX_NODES: usize = 8;

    /// Returns a job with this name and queue, and no other data.
    #[must_use]
    pub fn new(namespace: &str, name: &str, queue: &str) -> Self {
        Self {
            types: TypeMeta::resource::<Self>(),
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            queue: queue.to_owned(),
            user: None,
            priority: 0,
            queue_share: None,
            phase: None,
            reason: None,
            message: None,
            attempt: None,
            position: None,
            gpus: 0,
            pods: 0,
            submitted: Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
            since: Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
            expected_start: None,
            expected_end: None,
            node_count: None,
            nodes: Vec::new(),
            holds: Vec::new(),
        }
    }
}

resource!(
    JobState,
    NamespaceResourceScope,
    ServedResource {
        kind: "JobState",
        plural: "jobstates",
        singular: "jobstate",
        short_names: &["jst"],
        namespaced: true,
        verbs: &["get", "list", "watch"],
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn job_state_round_trips() {
        let mut job = JobState::new("team-a", "llm", "default");
        job.position = Some(3);
        job.phase = Some(JobPhase::Queued);
        let written = serde_json::to_value(&job).unwrap();
        assert_eq!(written["apiVersion"], "visibility.trellis.dev/v1alpha1");
        assert_eq!(written["kind"], "JobState");
        assert_eq!(
            written["metadata"],
            json!({"name": "llm", "namespace": "team-a"})
        );
        assert_eq!(written.get("expectedStart"), None);
        let read: JobState = serde_json::from_value(written).unwrap();
        assert_eq!(read, job);
    }

    #[test]
    fn job_state_with_unknown_words_is_read() {
        let mut written = serde_json::to_value(JobState::new("a", "b", "c")).unwrap();
        written["phase"] = json!("Sleeping");
        written["later"] = json!({"field": 1});
        let read: JobState = serde_json::from_value(written).unwrap();
        assert_eq!(read.phase, Some(JobPhase::Unrecognized));
    }
}
