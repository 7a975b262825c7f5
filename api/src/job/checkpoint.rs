//! Checkpoints: the grace to write one, and the time of the last one.

use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TrainingJobSpec;
use crate::rules;

/// Default of `gracePeriodSeconds`: the kubelet's default.
pub(crate) const DEFAULT_GRACE_SECONDS: i64 = 30;

/// How the job saves its state (docs/checkpoints.md).
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Checkpoint {
    /// Seconds from SIGTERM to SIGKILL for a healthy rank that the operator stops: on preemption,
    /// suspension, the deadline, or an unhealthy node. If the attempt has failed by itself, the
    /// rank gets at most 30. Absent: 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::grace)))]
    #[x_kube(validation = rules::GRACE.to_cel_rule())]
    pub grace_period_seconds: Option<i64>,
    /// Annotation in which a pod of the job reports the time (RFC 3339) of its last complete
    /// checkpoint. Work before that time is not lost when the job loses its place. The writer of
    /// the annotation needs the right to patch pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::annotation_key)))]
    #[schemars(length(max = 317))]
    #[x_kube(validation = rules::ANNOTATION_KEY.to_cel_rule())]
    pub last_time_annotation: Option<String>,
}

/// Checkpoints that the job's pods have reported.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointStatus {
    /// Time of the last complete checkpoint, as the pods report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_time: Option<Time>,
    /// Time of a reported checkpoint that lay in the future. In this case `lastTime` is the time at
    /// which the operator first saw the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead_time: Option<Time>,
    /// Problem with the pods' reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl TrainingJobSpec {
    /// Returns the seconds from SIGTERM to SIGKILL of a pod, by default 30.
    #[must_use]
    pub fn grace_period_seconds(&self) -> i64 {
        let given = self.checkpoint.as_ref();
        let given = given.and_then(|checkpoint| checkpoint.grace_period_seconds);
        given.unwrap_or(DEFAULT_GRACE_SECONDS)
    }
}
