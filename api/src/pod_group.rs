//! [`PodGroup`]: a gang. Its status is the journal of its placement.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::{DEFAULT_GRACE_SECONDS, Preemptibility};
use crate::rules;
use crate::status::words::open_word;
use crate::topology::Closeness;
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
#[x_kube(validation = rules::SPLIT_POD_GROUP.to_cel_rule())]
pub struct PodGroupSpec {
    /// Smallest number of pods that are placed together.
    pub min_member: i64,
    /// Name of the TrainingQueue. Absent, in a PodGroup that a user writes: the queue in the label
    /// `trellis.dev/queue` of its pods, else the default queue of its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub queue_name: String,
    /// Priority of a job's gang: higher goes first. The scheduler ignores it in a PodGroup that a
    /// user writes; set `priorityClassName` there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Name of the gang's PriorityClass, in a PodGroup that a user writes. Absent: the lowest
    /// priority of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// Protection from preemption. Absent: Preemptible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptibility: Option<Preemptibility>,
    /// Seconds after placement during which the gang cannot be preempted. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::MIN_RUNTIME.to_cel_rule())]
    pub min_runtime_seconds: Option<i64>,
    /// Seconds that the pods get to stop. Absent: 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::GRACE.to_cel_rule())]
    pub grace_period_seconds: Option<i64>,
    /// Required or preferred closeness of all pods. Absent: any nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Closeness>,
    /// The task groups of a job's gang. Empty in a PodGroup that a user writes: its pods state
    /// their own requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub groups: Vec<PodGroupMember>,
}

impl PodGroupSpec {
    /// True if the gang may be a victim of preemption.
    #[must_use]
    pub fn is_preemptible(&self) -> bool {
        self.preemptibility.unwrap_or_default().is_preemptible()
    }

    /// Returns the priority, by default 0.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.priority.unwrap_or(0)
    }

    /// Returns the seconds that the pods get to stop, by default 30.
    #[must_use]
    pub fn grace_period_seconds(&self) -> i64 {
        self.grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS)
    }
}

/// One task group of a gang.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodGroupMember {
    /// Name of the task group.
    #[schemars(length(max = 24))]
    pub name: String,
    /// Number of pods of the group.
    pub count: i64,
    /// Resources that one pod requests.
    #[schemars(extend("maxProperties" = 32))]
    pub resources: BTreeMap<String, Quantity>,
    /// The resource that counts as its GPUs. Absent: the pods request no GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub gpu_resource: Option<String>,
    /// Rank of the group's first pod, if `slices` or `balanced` of `topology` of the gang count its
    /// pods. Absent: they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_rank: Option<i64>,
    /// Required or preferred closeness of the group's pods, and their slices. Absent: as the whole
    /// gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Closeness>,
}

/// The journal of a gang: its phase, and the plan that every leader must carry out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// Phase of the gang: Pending, Provisioning, Nominated, Committing, Placed, Unwinding or
    /// Finished. Absent: Pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<PodGroupPhase>,
    /// Epoch of the leader that wrote this. It never decreases; the API server refuses a write of
    /// an earlier leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// The plan of the gang: pending until its victims have left, in progress, or complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// While Nominated: gangs that leave so that the plan's place becomes free. The operator evicts
    /// them only after this list is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_VICTIMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub victims: Vec<NominatedVictim>,
    /// While Provisioning: the new nodes that the gang waits for. The operator asks an autoscaler
    /// for them only after this is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning: Option<JournaledOrder>,
    /// While Unwinding after a preemption or drain: time until which a PodDisruptionBudget may
    /// delay the evictions. Pods that still exist then are deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evict_until: Option<Time>,
    /// Hashes of the last rolled-back plans of external pods. A pod that a binding of such a plan
    /// still reaches is evicted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_UNDONE_PLANS), inner(length(max = 64)), extend("x-kubernetes-list-type" = "atomic"))]
    pub undone_plans: Vec<String>,
    /// Number of consecutive failed commits. The back-off grows with this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<i64>,
    /// Earliest time of the next commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_time: Option<Time>,
    /// Why the last plan was rolled back, or what the gang waits for while it is Nominated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Explanation for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Phase of a gang. A journal with a phase that this version does not know fails to decode: its job
/// stands still, since no decision about it would be safe.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PodGroupPhase {
    /// The gang has no plan and no pods.
    #[default]
    Pending,
    /// New nodes are on order for the gang. It has no plan and no pods.
    Provisioning,
    /// The plan is written, and its victims are leaving. No pods exist yet.
    Nominated,
    /// The plan is written, and its pods are being created.
    Committing,
    /// All pods of the plan were created.
    Placed,
    /// The plan is being rolled back, and its pods are being deleted.
    Unwinding,
    /// The job has ended. The plan records its nodes.
    Finished,
}

open_word!(PodGroupPhase);

/// Number of rolled-back plans that a journal remembers. The API server carries out a binding
/// within a minute, and a gang has fewer attempts in that time.
pub const MAX_UNDONE_PLANS: usize = 8;

/// Largest number of victims of one nomination: the journal must fit into one object.
pub const MAX_VICTIMS: usize = 2048;

/// A gang that leaves its place for another gang.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NominatedVictim {
    /// Namespace of the job.
    pub namespace: String,
    /// Name of the job; for external pods `PodGroup/<name>` or `Pod/<name>`.
    pub name: String,
    /// Uid of the job, PodGroup or pod.
    pub uid: String,
    /// Hash of the plan that placed the victim. A victim that has another plan by now need not
    /// leave.
    pub plan: String,
    /// Name of the surplus pod, or of the first pod of the surplus slice, that leaves. Absent: the
    /// whole gang leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Number of pods that leave, with consecutive indexes from `pod`. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<i64>,
    /// Why this gang was chosen: LaterInQueue, Borrows, LowerPriority, FairShare or Surplus.
    pub because: VictimReason,
}

/// Why a gang may be preempted by another gang.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimReason {
    /// The victim is in the same queue, and comes after the preemptor in its order.
    LaterInQueue,
    /// The victim's queue holds more than its quota, and the preemptor reclaims its own queue's
    /// quota.
    Borrows,
    /// Both queues borrow, and the victim's priority is lower.
    LowerPriority,
    /// The victim's queue has the larger share of borrowed quota.
    FairShare,
    /// The victim is a surplus pod in the same queue.
    Surplus,
}

open_word!(VictimReason);

/// New nodes that are on order for a gang.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct JournaledOrder {
    /// Hash of attempt, compiled job, flavors and time. It labels the objects of the order.
    #[schemars(length(max = 64))]
    pub hash: String,
    /// Attempt of the job for which the nodes are ordered.
    pub attempt: i64,
    /// Hash of the compiled objects.
    #[schemars(length(max = 64))]
    pub compiled: String,
    /// Flavors that the task groups get from their queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub groups: Vec<PlannedGroup>,
    /// Number of new nodes by flavor.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["flavor"]))]
    pub nodes: Vec<FlavorNodes>,
    /// Time of the order.
    pub since: Time,
    /// Time at which the order ends if the gang has not started.
    pub until: Time,
}

/// New nodes of one flavor.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FlavorNodes {
    /// Name of the flavor.
    #[schemars(length(max = 63))]
    pub flavor: String,
    /// Number of nodes.
    pub count: i64,
}

/// One placement of the whole gang.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Hash of attempt, compiled job, flavors and assignments. Every pod of the plan carries it.
    pub hash: String,
    /// Attempt of the job that the plan is for.
    pub attempt: i64,
    /// Generation of the TrainingJob that was compiled.
    pub generation: i64,
    /// Hash of the compiled objects.
    pub compiled: String,
    /// Name of the TrainingQueue that the gang was placed in. The gang counts there while it has
    /// its place, even if another queue becomes the default of its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub queue: Option<String>,
    /// Priority at placement. It is valid while the gang has its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// `resourcesPerGPU` of the queue at placement. It is valid while the gang has its place.
    #[serde(rename = "resourcesPerGPU", skip_serializing_if = "Option::is_none")]
    pub resources_per_gpu: Option<ResourcesPerGpu>,
    /// Hash of the policies that allowed the gang, as in `status.policy` of jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub policy_set: Option<String>,
    /// Time at which an unfinished plan is rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Flavors that the task groups get from their queue. Groups without a flavor are omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub groups: Vec<PlannedGroup>,
    /// Elastic task groups of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub elastic: Vec<ElasticGroup>,
    /// `deadlines.activeSeconds` at placement. It stays in force while a changed spec may not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_seconds: Option<i64>,
    /// User who submitted the job, if known. The place is charged to this user's limits while the
    /// requester is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Limits of QuotaPolicies that the place is charged to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub limits: Vec<PlannedLimit>,
    /// Nodes of the pods, run-length encoded, in the order of the indexes.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub assignments: Vec<Assignment>,
}

/// A limit of a QuotaPolicy that a place is charged to. The record makes the limit count after a
/// restart of the operator, before the job has been evaluated again.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedLimit {
    /// Name of the QuotaPolicy.
    pub policy: String,
    /// User who holds the limit. Absent: the subject as a whole; empty: all unknown users together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Name of the limit: `runningJobs`, `gpuHours`, or the name of a resource.
    pub limit: String,
    /// Flavor in which the resource is held, if the limit counts only one flavor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// Queue whose quota the limit is a percentage of, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
}

/// Flavors and tolerations of one task group. The record lets a plan that is rolled forward create
/// the same pods, even if the flavors have changed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedGroup {
    /// Name of the task group.
    pub name: String,
    /// Flavor of each resource.
    pub flavors: BTreeMap<String, String>,
    /// Tolerations that the pods get from their flavors, in addition to the job's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Annotations by which the pods use the nodes of a ProvisioningRequest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// An elastic task group at the placement of its gang.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ElasticGroup {
    /// Name of the task group.
    pub name: String,
    /// Number of pods that the group asked for. A framework that took this number as its maximum
    /// gets no more pods.
    pub replicas: i64,
    /// Indexes of the first pods of the slices that are part of the gang, in the order of the
    /// assignments. Absent: the pods with the lowest indexes are part of the gang.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub slice_starts: Vec<i64>,
}

/// Consecutive pods of one group on one node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// Name of the task group.
    pub group: String,
    /// Name of the node.
    pub node: String,
    /// Number of pods: the next indexes of the group.
    pub count: i64,
    /// External pods of the group, in the order of the indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub pods: Vec<PlannedPod>,
}

/// An external pod that is bound.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlannedPod {
    /// Name of the object.
    pub name: String,
    /// UID of the object. A later object of the same name does not count.
    pub uid: String,
}
