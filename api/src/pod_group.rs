//! [`PodGroup`]: the gang, and in its status the journal of its placement.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::{DEFAULT_GRACE_SECONDS, Preemptibility};
use crate::rules;
use crate::status_word::open_word;
use crate::topology::TopologyRequest;
use crate::{Quantity, Reason, ResourcesPerGpu};

/// Pods that are placed all together or not at all.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "PodGroup",
    plural = "podgroups",
    shortname = "tpg",
    category = "trellis",
    namespaced,
    status = "PodGroupStatus",
    derive = "PartialEq",
    doc = "Pods that are placed all together or not at all.",
    validation = rules::EPOCH_NEVER_FALLS.to_cel_rule(),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Members", type_ = "integer", json_path = ".spec.minMember"),
    printcolumn(name = "Queue", type_ = "string", json_path = ".spec.queueName"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodGroupSpec {
    /// Pods that must be placed together.
    pub min_member: i64,
    /// Name of the TrainingQueue. Absent, in a PodGroup that a user writes: the one that the label
    /// `trellis.dev/queue` of its pods names, else the default of its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub queue_name: String,
    /// Priority of a job's gang: higher goes first. What a user writes here counts for nothing:
    /// that is said by `priorityClassName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// In a PodGroup that a user writes: name of the PriorityClass of its gang. Absent: the lowest
    /// priority of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// Protection from preemption. Absent: Preemptible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptibility: Option<Preemptibility>,
    /// Seconds for which it is no victim of preemption once it has its place. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::MIN_RUNTIME.to_cel_rule())]
    pub min_runtime_seconds: Option<i64>,
    /// Seconds that its pods are given to stop. Absent: 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::GRACE.to_cel_rule())]
    pub grace_period_seconds: Option<i64>,
    /// Closeness of all pods. Absent: any nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyRequest>,
    /// The task groups of a job's gang. A PodGroup that a user writes has none: its pods say what
    /// they ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub groups: Vec<PodGroupMember>,
}

impl PodGroupSpec {
    /// True if it may be a victim of preemption.
    #[must_use]
    pub fn is_preemptible(&self) -> bool {
        self.preemptibility.unwrap_or_default().is_preemptible()
    }

    /// Its priority, 0 where nothing is said.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.priority.unwrap_or(0)
    }

    /// Seconds that its pods are given to stop, 30 where nothing is said.
    #[must_use]
    pub fn grace_period_seconds(&self) -> i64 {
        self.grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS)
    }
}

/// One task group of the gang.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodGroupMember {
    /// Name of the task group.
    #[schemars(length(max = 24))]
    pub name: String,
    /// Pods of the group.
    pub count: i64,
    /// Resources that one pod requests.
    #[schemars(extend("maxProperties" = 32))]
    pub resources: BTreeMap<String, Quantity>,
    /// The resource that counts as its GPUs. Absent: it asks for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub gpu_resource: Option<String>,
    /// Closeness of the pods of the group. Absent: as the whole gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyRequest>,
}

/// The journal: where the gang is on its way, and the plan that binds whoever leads.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// Phase of the gang: Pending, Nominated, Committing, Placed, Unwinding or Finished. Absent:
    /// Pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<PodGroupPhase>,
    /// Term of the leader that wrote this. It never falls: a write of an earlier leader is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// The plan that is being carried out, or has been, or will be once its victims have left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// While Nominated: the gangs that leave so that the plan's place becomes free. They are told
    /// to once this stands, and not before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_VICTIMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub victims: Vec<NominatedVictim>,
    /// While Unwinding for another gang or a drained queue: until then a PodDisruptionBudget may
    /// put the evictions off; pods that are still there then are deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evict_until: Option<Time>,
    /// Hashes of the last plans of external pods that were undone: a pod that a binding of them
    /// still reaches is evicted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_UNDONE_PLANS), inner(length(max = 64)), extend("x-kubernetes-list-type" = "atomic"))]
    pub undone_plans: Vec<String>,
    /// Commits in a row that failed; the next try waits longer each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<i64>,
    /// No new try before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_time: Option<Time>,
    /// Why the last plan was undone, or what the gang waits for while it is Nominated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Explanation for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Where a gang is on its way. A journal in a state that this version does not
/// know does not decode: its job stands still, since nothing may be decided on it.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PodGroupPhase {
    /// No plan, and no pods.
    #[default]
    Pending,
    /// The plan stands, and the gangs that make room for it are leaving; no pods yet.
    Nominated,
    /// The plan stands; its pods are being created.
    Committing,
    /// All pods of the plan were created.
    Placed,
    /// The plan is being undone; its pods are being deleted.
    Unwinding,
    /// The job has ended; the plan tells where it ran.
    Finished,
}

open_word!(PodGroupPhase);

/// Undone plans that a journal remembers: the API server carries out a binding within a minute, and
/// a gang is not tried so often in that time.
pub const MAX_UNDONE_PLANS: usize = 8;

/// Victims that one nomination names at most: the journal must fit into one object.
pub const MAX_VICTIMS: usize = 2048;

/// A gang that leaves its place for another.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NominatedVictim {
    /// Namespace of the job.
    pub namespace: String,
    /// Name of the job; of pods that others have made `PodGroup/<name>` or `Pod/<name>`.
    pub name: String,
    /// Uid of the job, PodGroup or pod.
    pub uid: String,
    /// Hash of the plan that placed it: if it has another by now, it need not leave.
    pub plan: String,
    /// Name of the one pod that leaves, of those beyond its gang. Absent: the gang does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Why it, and not another: LaterInQueue, Borrows, LowerPriority or Surplus.
    pub because: VictimReason,
}

/// Why a gang may be preempted by another.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimReason {
    /// It is in the same queue, whose order puts the other before it.
    LaterInQueue,
    /// Its queue holds more than its quota, and the other asks for its own.
    Borrows,
    /// Both queues borrow, and its priority is lower.
    LowerPriority,
    /// It is a pod that its job can do without, in the same queue.
    Surplus,
}

open_word!(VictimReason);

/// One placement of the whole gang.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Hash of attempt, compiled job, flavors and assignments. Every pod of the plan bears it.
    pub hash: String,
    /// Attempt of the job that the plan is for.
    pub attempt: i64,
    /// Generation of the TrainingJob that was compiled.
    pub generation: i64,
    /// Hash of what it was compiled into.
    pub compiled: String,
    /// Name of the TrainingQueue that the gang was placed in. While it has its place it counts
    /// there, though another may have become the default of its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub queue: Option<String>,
    /// The priority that it was placed with, for as long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// `resourcesPerGPU` that its queue had when it was placed, for as long.
    #[serde(rename = "resourcesPerGPU", skip_serializing_if = "Option::is_none")]
    pub resources_per_gpu: Option<ResourcesPerGpu>,
    /// Hash of the policies that allowed it, as `status.policy` of jobs names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub policy_set: Option<String>,
    /// Time at which an unfinished plan is undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Flavors that the task groups get from their queue. Groups without a flavor are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub groups: Vec<PlannedGroup>,
    /// The elastic task groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub elastic: Vec<ElasticGroup>,
    /// `deadlines.activeSeconds` that it was placed with. It holds on while what the job has been
    /// changed to may not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_seconds: Option<i64>,
    /// The user who had submitted the job, where that was known: whose limits the place is charged
    /// to while nobody can say any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// The limits of QuotaPolicies that the place is charged to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub limits: Vec<PlannedLimit>,
    /// Nodes of the pods, run-length encoded, in order of the index.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub assignments: Vec<Assignment>,
}

/// A limit of a QuotaPolicy that a place is charged to. It is written down, so that it counts after
/// a restart before anybody has judged the job again.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedLimit {
    /// Name of the QuotaPolicy.
    pub policy: String,
    /// The user whose limit it is. Absent: the limit of the subject as a whole; empty: that of all
    /// unknown users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Name of the limit: `runningJobs`, `gpuHours`, or the name of a resource.
    pub limit: String,
    /// The flavor in which the resource is held, where only that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// The queue of whose quota the limit is a part, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
}

/// What one task group gets from flavors. It is written down, so that a plan that
/// is gone on with makes the very same pods, whatever has become of the flavors.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedGroup {
    /// Name of the task group.
    pub name: String,
    /// The flavor that each resource is counted by.
    pub flavors: BTreeMap<String, String>,
    /// Tolerations that the pods get from their flavors, beside those of the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// An elastic task group, as it was when its gang was placed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ElasticGroup {
    /// Name of the task group.
    pub name: String,
    /// Pods that it asked for. What starts with that number in mind does not become more.
    pub replicas: i64,
}

/// A run of pods of one group on one node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// Name of the task group.
    pub group: String,
    /// Name of the node.
    pub node: String,
    /// The next so many indexes of the group.
    pub count: i64,
    /// External pods of the group, in that order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub pods: Vec<PlannedPod>,
}

/// A pod that somebody else has made, and that is bound.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlannedPod {
    /// Name of the object.
    pub name: String,
    /// UID of the object: another object of that name is not meant.
    pub uid: String,
}
