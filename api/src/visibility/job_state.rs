//! A job that waits for its place or holds it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ServedResource, resource};
use crate::Reason;
use crate::job::JobPhase;

/// A TrainingJob that waits for its place in a queue or holds it, or a gang of pods that others
/// have made: where it stands in the order, what it asks for, and when it is expected to start and
/// to end.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct JobState {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// The job's namespace and name, and when it was created; of pods that others have made
    /// `podgroup.<name>` or `pod.<name>`.
    pub metadata: ObjectMeta,
    /// Queue that it is in.
    pub queue: String,
    /// Who asked for it, if that is known: the user of `trellis.dev/requested-by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its priority: the higher goes first.
    pub priority: i32,
    /// The share of its queue, as in `TrainingQueue.status.share`: the queue with the smallest has
    /// the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_share: Option<String>,
    /// One word for its state, as in its status. Absent: it has no status yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<JobPhase>,
    /// The one current reason, as in its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The reason in words, with the numbers of the moment when it became true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its place in the order of its queue, from 1. Fairness between queues and backfill may let
    /// it start before those in front. Absent: it holds its place, or others are leaving for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// Devices that it asks for or holds: the sum of all resources that are handed out by count.
    pub gpus: i64,
    /// Pods that it asks for or holds.
    pub pods: i64,
    /// Since when it stands in the order of its queue.
    pub submitted: Time,
    /// Since when it has waited, or held its place.
    pub since: Time,
    /// When it is expected to start, if nothing comes before it any more and what runs ends when
    /// it should. Absent: that is not known, or it holds its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Time>,
    /// When it is expected to end. Absent: that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<Time>,
    /// How many nodes its place has. Absent: it has no place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_count: Option<u32>,
    /// The first of these nodes by name, at most [`JobState::MAX_NODES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

impl JobState {
    /// Names of nodes at most: a list of ten thousand jobs is to stay small.
    pub const MAX_NODES: usize = 8;

    /// One of that name, in a queue, of which nothing else is known.
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
            position: None,
            gpus: 0,
            pods: 0,
            submitted: Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
            since: Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
            expected_start: None,
            expected_end: None,
            node_count: None,
            nodes: Vec::new(),
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
        verbs: &["get", "list"],
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
