//! Status of job policies.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Observed state of a JobPolicy or ClusterJobPolicy.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct JobPolicyStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ids of the policies of this object that take effect, as decisions name them:
    /// `<name>/<id>`, of a JobPolicy `<namespace>/<name>/<id>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub policy_ids: Vec<String>,
    /// Hash of all policies that take effect, of all objects, when this status was
    /// written: what decisions name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_set_hash: Option<String>,
    /// Jobs that the policies of this object deny and that are not refused: of Deny
    /// those that have pods all the same, of Warn and Audit all. At most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub violations: Vec<PolicyViolation>,
    /// How many there are.
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
    /// Ids of the policies that deny it.
    pub policies: Vec<String>,
    /// Denied request, in words.
    pub message: String,
}
