//! Current state of a queue.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Amount, ServedResource, resource};
use crate::queue::DecayedUsage;
use crate::{Quantity, Reason};

/// Current state of a queue: what its jobs hold and wait for, what it borrows and may lend, and its
/// share, which decides the next turn.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QueueState {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// Name and creation time of the queue.
    pub metadata: ObjectMeta,
    /// Name of the parent queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Weight of the queue: its share of turns, relative to other queues, as in its spec.
    pub weight: Quantity,
    /// True if the queue starts jobs, as in the condition Active of its status. Absent: not known
    /// yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// Reason for `active`, from the list in docs/reasons.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Explanation for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Number of pending jobs.
    pub pending: i64,
    /// Number of admitted jobs.
    pub admitted: i64,
    /// Usage of the queue and the queues below it, divided by the weight: the amount of its
    /// dominant resource as a part of the cluster's total. The queue with the smallest share has
    /// the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// Usage of the queue and the queues below it, with a half-life of 7 days.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decayed_usage: Vec<DecayedUsage>,
    /// Time at which `decayedUsage` was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decayed_time: Option<Time>,
    /// Quota, usage, borrowed and lendable amounts, by flavor and resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<QueueResource>,
    /// Total requests of the pending jobs. The scheduler chooses their flavors when they start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_resources: Vec<Amount>,
}

/// State of a queue for one resource of one flavor.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QueueResource {
    /// Name of the flavor.
    pub flavor: String,
    /// Name of the resource.
    pub resource: String,
    /// Nominal quota of the queue, as in its spec.
    pub nominal_quota: Quantity,
    /// Amount that counts against the quota: usage of its jobs, and usage of queues below it beyond
    /// their own quota.
    pub used: Quantity,
    /// Part of the used amount beyond the quota.
    pub borrowed: Quantity,
    /// Quota of the queue and the queues below it that other queues may borrow while it is idle.
    pub lendable: Quantity,
    /// Amount that its jobs may still get by quota, even if no node has it. Absent: quota is not
    /// limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<Quantity>,
}

resource!(
    QueueState,
    ClusterResourceScope,
    ServedResource {
        kind: "QueueState",
        plural: "queuestates",
        singular: "queuestate",
        short_names: &["qs"],
        namespaced: false,
        verbs: &["get", "list", "watch"],
    }
);
