//! What a node has, who holds it, and whether it takes more.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Amount, JobRef, ServedResource, resource};
use crate::Quantity;

/// A node as the scheduler has it: what it has, who holds that, for whom it is kept, and whether it
/// takes new pods.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// The node's name, and when it was created.
    pub metadata: ObjectMeta,
    /// Whether it takes new pods of jobs that tolerate its taints.
    pub schedulable: bool,
    /// Why not: all that holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<NodeReason>,
    /// Taints that jobs must tolerate, as kubectl writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
    /// Where it is, by the levels of the Topologies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<NodeDomain>,
    /// What it has: cpu, memory and all that is handed out by count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<NodeResource>,
    /// Jobs that hold something of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<NodeHold>,
    /// Pods on it that are of no job that has a place.
    pub other_pods: i64,
    /// Jobs for which a place is reserved here: others start only where that makes none of them
    /// later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved_for: Vec<NodeHold>,
    /// Jobs for which it is kept that had it, and come again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_for: Vec<NodeHold>,
    /// Jobs that keep away from it, since pods of theirs failed here: at most
    /// [`NodeState::MAX_EXCLUDING_JOBS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded_by: Vec<JobRef>,
}

/// Why a node takes no new pods.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeReason {
    /// One word: NotReady, SchedulingDisabled (it is cordoned), Unhealthy, NoPods (it says of no
    /// pods that it takes them) or Deleted (its Node object is, and pods of it are still there).
    pub reason: String,
    /// Explanation for people.
    pub message: String,
}

/// A domain of a topology that a node is in.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeDomain {
    /// Name of the Topology.
    pub topology: String,
    /// Name of the level.
    pub level: String,
    /// The domain: the value of the node's label of that level.
    pub domain: String,
}

/// What a node has of a resource.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeResource {
    /// The resource, by its Kubernetes name.
    pub resource: String,
    /// What pods may use of it.
    pub allocatable: Quantity,
    /// What jobs hold.
    pub jobs: Quantity,
    /// What other pods use.
    pub others: Quantity,
    /// What is kept for jobs that come again.
    pub kept: Quantity,
    /// What is left. Absent: less than nothing, since it has shrunk below what is used, or somebody
    /// comes before others have left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Quantity>,
}

/// A job on a node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeHold {
    /// The job.
    #[serde(flatten)]
    pub job: JobRef,
    /// Its pods here.
    pub pods: i64,
    /// What they hold of what is handed out by count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Amount>,
    /// One word: Running (they are here), Starting (they are still to come), Stopping (they go).
    /// Of a place that is reserved or kept: absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// When a reserved place is expected to be taken. Absent: that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Time>,
    /// Until when a place is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

impl NodeState {
    /// Names of jobs that keep away from a node at most.
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
        verbs: &["get", "list"],
    }
);
