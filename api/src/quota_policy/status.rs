//! What is seen of a QuotaPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// Observed state of a QuotaPolicy.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QuotaPolicyStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Holders with what they use: the subject, or each user in it. The 20 with the least room
    /// left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub holders: Vec<QuotaHolder>,
    /// Number of holders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_count: Option<i64>,
    /// Number of holders that have no room in some limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_count: Option<i64>,
    /// GPU-hours that are left in the window to the holder that has least. Absent: they are not
    /// limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_hours_left: Option<Quantity>,
    /// Conditions: Active, Degraded, Ready, Reconciling, Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// One for whom the limits hold.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QuotaHolder {
    /// The user. Absent: the subject as a whole; empty: all unknown users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Use of each limit.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub uses: Vec<QuotaUse>,
}

/// What is held of one limit.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUse {
    /// Name of the limit: `runningJobs`, `queuedJobs`, `gpuHours`, or a resource, with its flavor
    /// where the limit has one: `nvidia.com/gpu`, `a100/nvidia.com/gpu`.
    pub limit: String,
    /// Amount that is held.
    pub used: Quantity,
    /// Largest amount.
    pub max: Quantity,
}
