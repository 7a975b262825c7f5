//! What is seen of a QuotaPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
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
    /// Who holds what: the subject, or each user in it. The 20 that have the least room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub holders: Vec<QuotaHolder>,
    /// How many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_count: Option<i64>,
    /// How many of them have no room in some limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_count: Option<i64>,
    /// GPU-hours that are left in the window to the holder that has least. Absent: they are not
    /// limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_hours_left: Option<Quantity>,
    /// What has been burnt until `burntUntil`, by holder and part of the window: what is
    /// counted on from after a restart of the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub burnt: Vec<BurntGpuTime>,
    /// Until when that is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burnt_until: Option<Time>,
    /// Conditions: Active, Degraded, Ready, Reconciling, Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// One for whom the limits hold.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QuotaHolder {
    /// The user. Absent: the subject as a whole; empty: users whom nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// What is held, by limit.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub uses: Vec<QuotaUse>,
}

/// What is held of one limit.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUse {
    /// Which: `runningJobs`, `queuedJobs`, `gpuHours`, or a resource, with its flavor
    /// where the limit has one: `nvidia.com/gpu`, `a100/nvidia.com/gpu`.
    pub limit: String,
    /// How much is held.
    pub used: Quantity,
    /// How much may be.
    pub max: Quantity,
}

/// GPU-time that was burnt in one part of the window.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BurntGpuTime {
    /// The user. Absent: the subject as a whole; empty: users whom nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// When the part begins.
    pub start: Time,
    /// GPU-seconds that were burnt in it.
    pub gpu_seconds: Quantity,
}
