//! The full explanation why one job waits.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Amount, JobRef, ServedResource, resource};
use crate::{Quantity, Reason};

/// Why a TrainingJob waits, with current numbers: what it lacks, how each node matches, which gangs
/// it would preempt, and the smallest change that would help.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// Namespace, name and creation time of the job.
    pub metadata: ObjectMeta,
    /// Time of these numbers.
    pub time: Time,
    /// Queue that the job waits in.
    pub queue: String,
    /// Priority of the job: higher goes first.
    pub priority: i32,
    /// Position of the job in the order of its queue, from 1. Absent: the job is nominated, and its
    /// victims are leaving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// Reason for waiting, from the list in docs/reasons.md. Absent: the job can start in the next
    /// scheduling cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The reason in words, with numbers.
    pub message: String,
    /// Missing resources, quota or limits. Absent: no countable amount is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
    /// How the nodes match each of its task groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_groups: Vec<TaskGroupNodes>,
    /// Victims that are leaving, or would leave now, so that the job can start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempts: Vec<Preempted>,
    /// Victims in namespaces that the caller may not read: counts by priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempts_others: Vec<OtherJobs>,
    /// Jobs that this job may preempt only later, at most [`Explanation::MAX_LISTED`], ordered by
    /// that time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<Protected>,
    /// Nodes with a reservation for the job, at most [`Explanation::MAX_LISTED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved_nodes: Vec<String>,
    /// Expected start time, if no further job passes it and running jobs end as expected. Absent:
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Time>,
    /// Smallest change that would remove the obstacle. Absent: none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_change: Option<SmallestChange>,
    /// Changes of the job's own request. With any one of them, the job would start now. Absent: the
    /// search found none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request_changes: Vec<RequestChange>,
    /// Running jobs that have room on other nodes. If all of them moved there, this job would start.
    /// The list is set only if the free capacity is fragmented. Absent: the search found no such
    /// jobs, or the caller may not read all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<MovableJob>,
}

/// Numbers of a shortage. Fields that do not belong to the reason are absent.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Shortage {
    /// Task group with the shortage. Absent: the whole job, or its only task group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_group: Option<String>,
    /// Resource that is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Flavor of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// Queue whose quota is short: the job's queue, or one above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Limit of a QuotaPolicy that is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Amount that all pods need together; if one pod is too large by itself, the amount for that
    /// pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Quantity>,
    /// Largest possible amount: total of the matching nodes, size of the largest node, or a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<Quantity>,
    /// Amount in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Quantity>,
    /// Amount that is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Quantity>,
    /// Amount that is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Quantity>,
    /// Amount that jobs hold on matching nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by_jobs: Option<Quantity>,
    /// Amount that other pods hold on matching nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by_others: Option<Quantity>,
    /// Number of nodes that these amounts cover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// Number of pods that need room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<i64>,
    /// Number of these pods that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<i64>,
    /// Name of the level of a Topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Domain of that level with room for the most pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Job that goes first. Absent: none does, or the caller may not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<JobRef>,
    /// Priority of the job that goes first, if the caller may not read its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_priority: Option<i32>,
}

/// How the nodes match a task group.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TaskGroupNodes {
    /// Name of the task group.
    pub name: String,
    /// Number of its pods.
    pub pods: i64,
    /// Requests of one pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Amount>,
    /// Flavors that the scheduler considers for the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flavors: Vec<String>,
    /// Number of all nodes.
    pub nodes: i64,
    /// Number of nodes that meet the constraints and offer every requested resource.
    pub matching: i64,
    /// Number of pods that fit on the matching nodes now, each node considered by itself.
    pub room: i64,
    /// Constraints that exclude the other nodes. Each node counts once, for its first constraint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<ExcludedNodes>,
    /// Matching nodes with the most room, at most [`Explanation::MAX_LISTED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
}

/// Nodes that a constraint excludes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedNodes {
    /// Constraint in one word: NotReady, Unhealthy, SchedulingDisabled, Avoided (pods of the job
    /// failed there), NodeSelector, NodeAffinity, Taint, Volume, PodAntiAffinity or Resource.
    pub constraint: String,
    /// Detail of the constraint: the label, taint or resource, or the cause of the bad health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Number of nodes.
    pub count: i64,
    /// First nodes by name, at most [`Explanation::MAX_LISTED`]. Empty: the caller may not read
    /// them.
    #[serde(default)]
    pub nodes: Vec<String>,
}

/// A node that matches a task group.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Name of the node.
    pub node: String,
    /// Number of pods of the group that fit on the node now.
    pub room: i64,
    /// Free amounts of the resources that a pod requests.
    pub free: Vec<Amount>,
}

/// A victim of the job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Preempted {
    /// The job that leaves.
    #[serde(flatten)]
    pub job: JobRef,
    /// Name of the pod, if only a surplus pod leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Why this gang was chosen. Absent: it is leaving already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Work that the job would lose, in device-seconds: from its last checkpoint, or else from its
    /// placement, until now. Absent: it is leaving already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_device_seconds: Option<u64>,
}

/// A change of one field of the job or PodGroup.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RequestChange {
    /// Path of the field, such as `spec.taskGroups[worker].topology.slicePolicy`.
    pub field: String,
    /// New value, in YAML. A topology is shown with `required` and `preferred`; its other fields stay.
    pub value: String,
}

/// A running job that has room on other nodes. Trellis does not move it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MovableJob {
    /// The job.
    #[serde(flatten)]
    pub job: JobRef,
    /// Nodes with room for the job, at most [`Explanation::MAX_LISTED`]. Absent: the caller may not
    /// read nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Work that the job would lose, in device-seconds: from its last checkpoint, or else from its
    /// placement, until now. At most 4 hours of each device count.
    pub lost_device_seconds: u64,
}

/// A job that cannot be preempted yet: it has run for less than its `minRuntimeSeconds`, or a
/// PodDisruptionBudget has just refused its eviction.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Protected {
    /// The protected job. Absent: the caller may not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobRef>,
    /// Time from which the job may be preempted.
    pub until: Time,
}

/// Jobs whose names the caller may not read.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OtherJobs {
    /// Number of these jobs.
    pub count: i64,
    /// Priority of these jobs. Absent: it is no longer known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// The smallest change that would help: exactly one of these fields.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SmallestChange {
    /// Quotas to raise, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raise_quotas: Vec<RaisedQuota>,
    /// Limits of QuotaPolicies to raise, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raise_limits: Vec<RaisedLimit>,
    /// Amounts to free, all of them, by node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free: Vec<FreedOn>,
}

/// A quota to raise.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RaisedQuota {
    /// Name of the queue.
    pub queue: String,
    /// Field to raise: `nominalQuota` or `borrowingLimit`.
    pub field: String,
    /// Flavor of the quota, if it is not `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// Resource of the quota.
    pub resource: String,
    /// Amount to add.
    pub by: Quantity,
}

/// A limit to raise.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RaisedLimit {
    /// Limit, in the form that messages use.
    pub limit: String,
    /// Resource that the limit counts. Absent: it counts jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Amount to add.
    pub by: Quantity,
}

/// Amounts to free on one node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FreedOn {
    /// Name of the node.
    pub node: String,
    /// Amounts to free, in addition to the free capacity.
    pub amounts: Vec<Amount>,
    /// Jobs that hold these resources on the node, the largest first, at most
    /// [`Explanation::MAX_LISTED`]. Only the first nodes have this list. Usage of other pods is not
    /// listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<HeldBy>,
    /// Number of further jobs that hold them. Absent: none, or the node has no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by_more: Option<i64>,
}

/// A job that holds resources that would have to become free.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HeldBy {
    /// The job that holds the resources.
    #[serde(flatten)]
    pub job: JobRef,
    /// Amounts that its pods hold on the node.
    pub amounts: Vec<Amount>,
    /// State in one word: Running (its pods exist), Starting (they are being created), Stopping
    /// (they are leaving). Absent: the pods differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

impl Explanation {
    /// Largest number of nodes or jobs in one list.
    pub const MAX_LISTED: usize = 8;
}

resource!(
    Explanation,
    NamespaceResourceScope,
    ServedResource {
        kind: "Explanation",
        plural: "explanations",
        singular: "explanation",
        short_names: &["why"],
        namespaced: true,
        verbs: &["get"],
    }
);
