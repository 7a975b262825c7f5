//! Checkpoints: the time to write one, and when the last was written.

use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TrainingJobSpec;
use crate::rules;

/// `gracePeriodSeconds` where none is given: the kubelet's default.
pub(crate) const DEFAULT_GRACE_SECONDS: i64 = 30;

/// How the job saves its work (docs/checkpoints.md).
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Checkpoint {
    /// Seconds from SIGTERM to SIGKILL for a rank that is asked to stop while it does well: on
    /// preemption, suspension, the deadline and on an unhealthy node. Where the attempt has failed
    /// by itself it is 30 at most. Absent: 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::grace)))]
    #[x_kube(validation = rules::GRACE.to_cel_rule())]
    pub grace_period_seconds: Option<i64>,
    /// Annotation by which a pod of the job says when its last checkpoint was complete, as a time
    /// of RFC 3339: what came before is not lost with its place. Whoever writes it needs the right
    /// to patch the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::annotation_key)))]
    #[schemars(length(max = 317))]
    #[x_kube(validation = rules::ANNOTATION_KEY.to_cel_rule())]
    pub last_time_annotation: Option<String>,
}

/// What is known of the job's checkpoints.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointStatus {
    /// Time at which the last checkpoint was complete, as the pods say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_time: Option<Time>,
    /// Time of a checkpoint that a pod reported and that was in the future: `lastTime` is when the
    /// operator first saw the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead_time: Option<Time>,
    /// Problem with what the pods report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl TrainingJobSpec {
    /// Seconds that a pod is given from SIGTERM to SIGKILL, 30 where nothing is said.
    #[must_use]
    pub fn grace_period_seconds(&self) -> i64 {
        let given = self.checkpoint.as_ref();
        let given = given.and_then(|checkpoint| checkpoint.grace_period_seconds);
        given.unwrap_or(DEFAULT_GRACE_SECONDS)
    }
}
