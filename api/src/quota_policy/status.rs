//! Status of a QuotaPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// Observed state of a QuotaPolicy.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QuotaPolicyStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Holders and their usage: the subject, or each user in it. At most the 20 with the least room
    /// left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub holders: Vec<QuotaHolder>,
    /// Number of holders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_count: Option<i64>,
    /// Number of holders without room in at least one limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_count: Option<i64>,
    /// GPU-hours left in the window for the holder with the least. Absent: GPU-hours are not
    /// limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_hours_left: Option<Quantity>,
    /// Conditions: Active, Degraded, Ready, Reconciling, Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A holder of the limits.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QuotaHolder {
    /// User who holds the limit. Absent: the subject as a whole; empty: all unknown users together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Usage of each limit.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub uses: Vec<QuotaUse>,
}

/// Usage of one limit.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUse {
    /// Name of the limit: `runningJobs`, `queuedJobs`, `gpuHours`, or a resource, with its flavor
    /// if the limit has one: `nvidia.com/gpu`, `a100/nvidia.com/gpu`.
    pub limit: String,
    /// Amount in use.
    pub used: Quantity,
    /// Largest amount allowed.
    pub max: Quantity,
}
