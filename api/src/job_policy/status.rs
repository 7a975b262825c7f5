//! Status of job policies.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Observed state of a JobPolicy or ClusterJobPolicy.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct JobPolicyStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ids of this object's policies that are in effect, as decisions name them: `<name>/<id>`, for
    /// a JobPolicy `<namespace>/<name>/<id>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub policy_ids: Vec<String>,
    /// Hash of all policies in effect, of all objects, when this status was written. Decisions name
    /// this hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_set_hash: Option<String>,
    /// Jobs that the policies of this object deny without refusing them: for Deny, jobs that
    /// already have pods; for Warn and Audit, all jobs. At most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub violations: Vec<PolicyViolation>,
    /// Number of violations, including those not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violation_count: Option<i64>,
    /// Conditions: Active, Degraded, Ready, Reconciling, Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A job that a policy denies.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PolicyViolation {
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub job: String,
    /// Ids of the policies that deny the job.
    pub policies: Vec<String>,
    /// The denied request, in words.
    pub message: String,
}
