//! Capacity, usage and schedulability of a node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Amount, JobRef, ServedResource, resource};
use crate::Quantity;

/// A node as the scheduler sees it: its capacity, the jobs that hold it, reservations, and whether
/// it accepts new pods.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// Name and creation time of the node.
    pub metadata: ObjectMeta,
    /// True if the node accepts new pods of jobs that tolerate its taints.
    pub schedulable: bool,
    /// Reasons why the node accepts no new pods, all that apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<NodeReason>,
    /// Taints that jobs must tolerate, in kubectl's format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
    /// Domains of the node, by level of the Topologies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<NodeDomain>,
    /// Capacity of the node: cpu, memory and all countable resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<NodeResource>,
    /// Jobs that hold resources of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<NodeHold>,
    /// Number of pods on the node that do not belong to a placed job.
    pub other_pods: i64,
    /// Jobs with a reservation on the node. Another job starts here only if it delays none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved_for: Vec<NodeHold>,
    /// Jobs that ran here and restart, so that the scheduler keeps their resources for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_for: Vec<NodeHold>,
    /// Jobs that avoid the node, since their pods failed on it: at most
    /// [`NodeState::MAX_EXCLUDING_JOBS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded_by: Vec<JobRef>,
}

/// Why a node accepts no new pods.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeReason {
    /// Reason in one word: NotReady, SchedulingDisabled (the node is cordoned), Unhealthy, NoPods
    /// (it reports no capacity for pods) or Deleted (its Node object is gone, but its pods are
    /// not).
    pub reason: String,
    /// Explanation for users.
    pub message: String,
}

/// A domain of a Topology that contains a node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeDomain {
    /// Name of the Topology.
    pub topology: String,
    /// Name of the level.
    pub level: String,
    /// Name of the domain: the value of the level's label on the node.
    pub domain: String,
}

/// Capacity and usage of one resource on a node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeResource {
    /// Kubernetes name of the resource.
    pub resource: String,
    /// Amount that pods may use.
    pub allocatable: Quantity,
    /// Amount that jobs hold.
    pub jobs: Quantity,
    /// Amount that other pods use.
    pub others: Quantity,
    /// Amount that is kept for jobs that restart.
    pub kept: Quantity,
    /// Amount that is free. Absent: it is negative, since the node has shrunk below its usage, or a
    /// pod arrives before another has left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Quantity>,
}

/// A job on a node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeHold {
    /// The job on the node.
    #[serde(flatten)]
    pub job: JobRef,
    /// Number of its pods on the node.
    pub pods: i64,
    /// Devices that its pods hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Amount>,
    /// State in one word: Running (its pods exist), Starting (they are being created), Stopping
    /// (they are leaving). Absent for reserved or kept resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Expected start of the job on reserved resources. Absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Time>,
    /// Time until which the resources are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

impl NodeState {
    /// Largest number of listed jobs that avoid a node.
    pub const MAX_EXCLUDING_JOBS: usize = 16;
}

resource!(
    NodeState,
    ClusterResourceScope,
    ServedResource {
        kind: "NodeState",
        plural: "nodestates",
        singular: "nodestate",
        short_names: &["nst"],
        namespaced: false,
        verbs: &["get", "list", "watch"],
    }
);
