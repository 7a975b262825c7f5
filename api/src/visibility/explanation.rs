//! Why one job waits, in full.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Amount, JobRef, ServedResource, resource};
use crate::{Quantity, Reason};

/// Why a TrainingJob waits for its place, with the numbers of this moment: what it lacks, what each
/// node is to it, who would make room for it, and the smallest change that would help.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// The job's namespace and name, and when it was created.
    pub metadata: ObjectMeta,
    /// When this was so.
    pub time: Time,
    /// Queue that it waits in.
    pub queue: String,
    /// Its priority: the higher goes first.
    pub priority: i32,
    /// Its place in the order of its queue, from 1. Absent: it has its place, and waits for others
    /// to leave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// Why it waits, from the list in docs/reasons.md. Absent: nothing stands in its way, and it
    /// starts when the scheduler next looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The same in words, with numbers.
    pub message: String,
    /// What it lacks. Absent where nothing that is counted stands in its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
    /// What the nodes are to each of its task groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_groups: Vec<TaskGroupNodes>,
    /// Jobs that are leaving, or would leave now, so that it has its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempts: Vec<Preempted>,
    /// The same of namespaces whose jobs are not for who asks: how many of which priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempts_others: Vec<OtherJobs>,
    /// Jobs that it may ask to make room later than now, at most [`Explanation::MAX_LISTED`]: those
    /// first that may be asked first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<Protected>,
    /// Nodes on which a place is reserved for it, at most [`Explanation::MAX_LISTED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved_nodes: Vec<String>,
    /// When it is expected to start, if nothing comes before it any more and what runs ends when
    /// it should. Absent: that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Time>,
    /// The smallest change that would let it pass what it waits for. Absent: none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_change: Option<SmallestChange>,
}

/// The numbers of what a job lacks. What does not belong to the reason is absent.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Shortage {
    /// The task group that lacks it. Absent: all of them together, or there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_group: Option<String>,
    /// The resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The flavor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// The queue whose quota it is: the job's, or one above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The limit of a QuotaPolicy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// What is needed: by all pods, or, where one pod is larger than what there is, by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Quantity>,
    /// The most that there is or may be: what matching nodes have, the largest of them, a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<Quantity>,
    /// What is held of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Quantity>,
    /// What is free of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Quantity>,
    /// What is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Quantity>,
    /// What jobs hold of it on matching nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by_jobs: Option<Quantity>,
    /// What other pods hold of it there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by_others: Option<Quantity>,
    /// Nodes that this is counted over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// Pods that need room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<i64>,
    /// How many of them there is room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<i64>,
    /// Name of the level of a Topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The domain of that level that holds most of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The job that goes first. Absent: none does, or it is not for who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<JobRef>,
    /// The priority of the job that goes first, where its name is not for who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_priority: Option<i32>,
}

/// What the nodes are to a task group.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TaskGroupNodes {
    /// The task group.
    pub name: String,
    /// Its pods.
    pub pods: i64,
    /// What one of them requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Amount>,
    /// The flavors that it is looked at with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flavors: Vec<String>,
    /// All nodes.
    pub nodes: i64,
    /// Nodes that meet its constraints and have some of all that a pod requests.
    pub matching: i64,
    /// Pods that these have room for now, each node for itself.
    pub room: i64,
    /// What keeps it off the others. Each node is counted once, for the first that does so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<ExcludedNodes>,
    /// The matching nodes with most room, at most [`Explanation::MAX_LISTED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
}

/// Nodes that a constraint excludes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedNodes {
    /// One word: NotReady, Unhealthy, SchedulingDisabled, Avoided (pods of the job failed there),
    /// NodeSelector, NodeAffinity, Taint, Volume, PodAntiAffinity or Resource.
    pub constraint: String,
    /// Which: the label, the taint, the resource or what the node is unhealthy with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How many nodes.
    pub count: i64,
    /// The first of them by name, at most [`Explanation::MAX_LISTED`]. None: they are not for who
    /// asks.
    #[serde(default)]
    pub nodes: Vec<String>,
}

/// A node that matches.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The node.
    pub node: String,
    /// Pods of the group that it has room for now.
    pub room: i64,
    /// What is free there of what a pod requests.
    pub free: Vec<Amount>,
}

/// A job that makes room.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Preempted {
    /// The job.
    #[serde(flatten)]
    pub job: JobRef,
    /// Its pod, where that alone leaves: one of an elastic group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Why it, and not another. Absent: it is leaving already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// A job that nobody may ask to make room yet: it has had its place for less than its
/// `minRuntimeSeconds`, or a PodDisruptionBudget spoke against it a moment ago.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Protected {
    /// The job. Absent: it is not for who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobRef>,
    /// When it may be asked.
    pub until: Time,
}

/// Jobs whose names are not for who asks.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OtherJobs {
    /// How many.
    pub count: i64,
    /// Of this priority. Absent: it is not known any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// The smallest change that would help. One of these.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SmallestChange {
    /// Quotas that are raised, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raise_quotas: Vec<RaisedQuota>,
    /// Limits of QuotaPolicies that are raised, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raise_limits: Vec<RaisedLimit>,
    /// What becomes free, on each of these nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free: Vec<FreedOn>,
}

/// A quota that is raised.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RaisedQuota {
    /// Of this queue.
    pub queue: String,
    /// `nominalQuota` or `borrowingLimit`.
    pub field: String,
    /// The flavor, where it is not `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// The resource.
    pub resource: String,
    /// By so much.
    pub by: Quantity,
}

/// A limit that is raised.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RaisedLimit {
    /// The limit, as messages name it.
    pub limit: String,
    /// The resource that it counts. Absent: it counts jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// By so much.
    pub by: Quantity,
}

/// What becomes free on a node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FreedOn {
    /// The node.
    pub node: String,
    /// So much more than is free now.
    pub amounts: Vec<Amount>,
    /// The jobs that hold some of that there, who holds most first, at most
    /// [`Explanation::MAX_LISTED`]: of the first so many nodes, the others are not looked at. What
    /// other pods hold is not told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<HeldBy>,
    /// How many more jobs do. Absent: none, or the node was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by_more: Option<i64>,
}

/// A job that holds some of what would have to become free.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HeldBy {
    /// The job.
    #[serde(flatten)]
    pub job: JobRef,
    /// What its pods hold on the node of what would have to become free.
    pub amounts: Vec<Amount>,
    /// One word: Running (they are there), Starting (they are still to come), Stopping (they go).
    /// Absent: not all of them do the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

impl Explanation {
    /// Names of nodes and jobs at most, wherever some are listed.
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
