//! How a queue stands.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Amount, ServedResource, resource};
use crate::queue::DecayedUsage;
use crate::{Quantity, Reason};

/// How a queue stands at this moment: what its jobs hold and wait for, what it borrows and may
/// lend, and the share by which turns are taken.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QueueState {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// The queue's name, and when it was created.
    pub metadata: ObjectMeta,
    /// The queue that it is below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its share of turns, relative to the other queues, as its spec states it.
    pub weight: Quantity,
    /// Whether it starts jobs, as the condition Active of its status says it. Absent: not known
    /// yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// Why, from the list in docs/reasons.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Explanation for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Jobs that wait.
    pub pending: i64,
    /// Jobs that hold a place.
    pub admitted: i64,
    /// What it and the queues below it have had for their weight, as a part of all that there is
    /// of the resource that they had most of: the smallest has the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// What it and the queues below it have held, forgotten by half in 7 days.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decayed_usage: Vec<DecayedUsage>,
    /// Time of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decayed_time: Option<Time>,
    /// By flavor and resource, what it has, holds, borrows and may lend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<QueueResource>,
    /// What the jobs that wait ask for together. Of which flavor is decided when they start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_resources: Vec<Amount>,
}

/// How a queue stands with one resource of one flavor.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QueueResource {
    /// Name of the flavor.
    pub flavor: String,
    /// Name of the resource.
    pub resource: String,
    /// The quota of its own, as in the spec of the TrainingQueue.
    pub nominal_quota: Quantity,
    /// What counts against the quota: held by its jobs, and by queues below it beyond their own.
    pub used: Quantity,
    /// How much of that is more than the quota.
    pub borrowed: Quantity,
    /// How much of the quota, its own and that of queues below it, others may hold while it is
    /// idle.
    pub lendable: Quantity,
    /// How much more its jobs may be given now, by quota: whether nodes have it is another
    /// question. Absent: as much as there is.
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
        verbs: &["get", "list"],
    }
);
