//! [`TrainingQueue`]: who may use how much.

use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{Amount, QuantityError};
use crate::{Quantity, ResourcesPerGpu, rules};

/// The flavor that need not exist: every node.
pub const DEFAULT_FLAVOR: &str = "default";

/// A line that jobs wait in, and what they may hold together.
///
/// Names and arithmetic are those of Kueue's ClusterQueue, so that its users can move.
#[derive(
    CustomResource, KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq,
)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "TrainingQueue",
    plural = "trainingqueues",
    shortname = "tq",
    category = "trellis",
    status = "QueueStatus",
    derive = "PartialEq",
    doc = "A line that jobs wait in, and what they may hold together.",
    validation = rules::QUEUE_OBJECT_NAME.to_cel_rule(),
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parentName"),
    printcolumn(name = "Pending", type_ = "integer", json_path = ".status.pending"),
    printcolumn(name = "Admitted", type_ = "integer", json_path = ".status.admitted"),
    printcolumn(name = "Active", type_ = "string", json_path = ".status.conditions[?(@.type==\"Active\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Active\")].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "string", json_path = ".spec.weight", priority = "1"),
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.queueingStrategy", priority = "1"),
    printcolumn(name = "Stop", type_ = "string", json_path = ".spec.stopPolicy", priority = "1"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct QueueSpec {
    /// Name of the TrainingQueue that this one is below: what one of them leaves idle, the
    /// others may hold. Jobs go to queues that have none below them. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::queue_name)))]
    #[x_kube(validation = rules::QUEUE_NAME.to_cel_rule())]
    pub parent_name: Option<String>,
    /// Share of turns, relative to the other queues: with weight 2 a queue gets twice what a queue
    /// with weight 1 gets. 0 to 1000, rounded up to thousandths, such as 2 or "0.5". 0: its
    /// turn comes after every queue with a weight above 0. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::weight)))]
    #[x_kube(validation = rules::WEIGHT.to_cel_rule())]
    pub weight: Option<Quantity>,
    /// Order in which jobs start. Absent: BestEffortFIFO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queueing_strategy: Option<QueueingStrategy>,
    /// Quota by resource. Absent: the queue takes what the nodes have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[garde(length(max = 16), dive, custom(rules::unique_quota_resources))]
    #[x_kube(validation = rules::UNIQUE_QUOTA_RESOURCES.to_cel_rule())]
    pub resource_groups: Vec<ResourceGroup>,
    /// Namespaces whose jobs may use the queue. Absent: none; `{}`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Namespaces whose jobs go here when they name no queue. Absent: none; `{}`: all
    /// that no other queue asks for. Of several the one that asks for most labels, then
    /// the first by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_for: Option<LabelSelector>,
    /// Whom the queue's jobs may preempt. Absent: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub preemption: Option<QueuePreemption>,
    /// Permission to start jobs before other jobs that wait for room. Absent: WithoutDelay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backfill_policy: Option<BackfillPolicy>,
    /// Seconds that backfill takes a job to hold its place for where neither the
    /// job (`deadlines.activeSeconds`) nor earlier runs of it say so. Nothing is
    /// ended by it. Absent: it is taken to have no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::runtime)))]
    #[x_kube(validation = rules::RUNTIME.to_cel_rule())]
    pub default_runtime_seconds: Option<i64>,
    /// CPU and memory for each GPU of task groups for which neither they nor their
    /// RuntimeProfile state them. Absent, of one or both: those of the nearest queue
    /// above that states them.
    #[serde(rename = "resourcesPerGPU", skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub resources_per_gpu: Option<ResourcesPerGpu>,
    /// The most that `minRuntimeSeconds` of the queue's jobs counts for, in
    /// seconds. Absent: as much as the job says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::min_runtime)))]
    #[x_kube(validation = rules::MIN_RUNTIME.to_cel_rule())]
    pub max_min_runtime_seconds: Option<i64>,
    /// Hold: nothing more starts. HoldAndDrain: and what runs is preempted. Absent: None.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_policy: Option<StopPolicy>,
}

impl QueueSpec {
    /// The weight in thousandths: 1000 where none is given, 0 where it is no amount.
    #[must_use]
    pub fn weight_thousandths(&self) -> u32 {
        let Some(weight) = &self.weight else {
            return 1000;
        };
        let amount = weight.amount().unwrap_or_default();
        amount
            .ceil_millis()
            .and_then(|w| u32::try_from(w).ok())
            .unwrap_or_default()
    }
}

/// Resources that are counted together.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::QUOTA_COVERS.to_cel_rule())]
pub struct ResourceGroup {
    /// Names of the resources that the flavors of this group give quota for.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "set"))]
    #[garde(
        length(min = 1, max = 16),
        inner(custom(rules::resource_name)),
        custom(rules::quota_covers(self))
    )]
    pub covered_resources: Vec<String>,
    /// Quota by flavor, in the order in which they are tried.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(min = 1, max = 16), dive)]
    pub flavors: Vec<FlavorQuotas>,
}

/// Quota in one flavor.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct FlavorQuotas {
    /// Name of a ResourceFlavor; `default` need not exist and is every node.
    #[schemars(length(max = 63))]
    #[garde(custom(rules::flavor_name))]
    #[x_kube(validation = rules::FLAVOR_NAME.to_cel_rule())]
    pub name: String,
    /// Quotas: one for each of `coveredResources`.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(min = 1, max = 16), dive)]
    pub resources: Vec<ResourceQuota>,
}

/// Quota of one resource.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct ResourceQuota {
    /// Name of the resource.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::resource_name))]
    #[x_kube(validation = rules::RESOURCE_NAME.to_cel_rule())]
    pub name: String,
    /// Amount of the resource that the queue's jobs may hold together. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::nominal)))]
    #[x_kube(validation = rules::NOMINAL.to_cel_rule())]
    pub nominal_quota: Option<Quantity>,
    /// Amount that the queue may hold beyond its quota. Absent: everything that other queues leave
    /// idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::nominal)))]
    #[x_kube(validation = rules::NOMINAL.to_cel_rule())]
    pub borrowing_limit: Option<Quantity>,
    /// Amount of the queue's quota that other queues may hold. Absent: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::nominal)))]
    #[x_kube(validation = rules::NOMINAL.to_cel_rule())]
    pub lending_limit: Option<Quantity>,
}

impl ResourceQuota {
    /// The nominal quota, 0 where none is given.
    ///
    /// # Errors
    /// If it is no amount, which validation refuses.
    pub fn nominal_amount(&self) -> Result<Amount, QuantityError> {
        let nominal = self.nominal_quota.as_ref();
        nominal.map_or(Ok(Amount::ZERO), Quantity::amount)
    }
}

/// Order in which the queue's jobs start: by priority, then by submission. BestEffortFIFO: a
/// job that cannot start may be passed; StrictFIFO: nothing passes the head, unless its last
/// start failed a moment ago. Absent: BestEffortFIFO.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QueueingStrategy {
    /// A job that cannot start may be passed.
    #[default]
    #[serde(rename = "BestEffortFIFO")]
    BestEffortFifo,
    /// Nothing passes the job at the head, unless its last start failed a moment ago.
    #[serde(rename = "StrictFIFO")]
    StrictFifo,
}

/// Permission to start jobs before other jobs that wait for room. WithoutDelay: where that does
/// not make those start later; Never: not at all. Absent: WithoutDelay.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BackfillPolicy {
    /// Where that does not make the other jobs start later.
    #[default]
    WithoutDelay,
    /// Not at all.
    Never,
}

/// Whom the jobs of a queue may preempt. The words are those of Kueue.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::BORROW_WITHIN.to_cel_rule())]
pub struct QueuePreemption {
    /// Jobs of the same queue. Absent: Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_cluster_queue: Option<WithinClusterQueue>,
    /// Jobs of other queues that hold more than their quota, for what is within
    /// this queue's own. Absent: Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_within_cohort: Option<ReclaimWithinCohort>,
    /// Preemption for capacity that this queue would borrow. Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive, custom(rules::borrow_within(self)))]
    pub borrow_within_cohort: Option<BorrowWithinCohort>,
}

/// Jobs of the same queue that a job may preempt: none, those of lower priority, or also those of
/// equal priority that were submitted later. Absent: Never.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WithinClusterQueue {
    /// None.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// Those, and of equal priority those that were submitted later.
    LowerOrNewerEqualPriority,
}

/// Jobs of other queues, which hold more than their quota, that a job may preempt for what is
/// within its own queue's: none, those of lower priority, or any. Absent: Never.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReclaimWithinCohort {
    /// None.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// Whichever.
    Any,
}

/// Which jobs of queues that borrow a job may preempt that would borrow too.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::MAX_PRIORITY.to_cel_rule())]
pub struct BorrowWithinCohort {
    /// Which. Absent: Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<BorrowWithinCohortPolicy>,
    /// The highest priority of a victim. Absent: whatever is lower than the job's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(custom(rules::max_priority(self)))]
    pub max_priority_threshold: Option<i32>,
}

/// Jobs of other queues, which borrow, that a job may preempt for what it would borrow itself.
/// Absent: Never.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BorrowWithinCohortPolicy {
    /// None.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
}

/// State of the queue. None: it is open; Hold: nothing more starts, what runs goes
/// on; HoldAndDrain: nothing more starts, and what runs is preempted. Absent: None.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StopPolicy {
    /// Open.
    #[default]
    None,
    /// Nothing more starts; what runs goes on.
    Hold,
    /// Nothing more starts, and what runs is preempted: it waits in the queue again.
    HoldAndDrain,
}

/// What is held of one resource of one flavor.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FlavorUsage {
    /// Name of the flavor.
    pub flavor: String,
    /// Name of the resource.
    pub resource: String,
    /// Amount that counts against the quota: held by the queue's jobs, and by queues below it
    /// beyond their own quota.
    pub used: Quantity,
    /// Amount beyond the quota.
    pub borrowed: Quantity,
}

/// Decayed usage of one resource, over all flavors.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DecayedUsage {
    /// Name of the resource.
    pub resource: String,
    /// Amount.
    pub amount: Quantity,
}

/// Observed state of a TrainingQueue.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Jobs that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<i64>,
    /// Jobs that hold a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted: Option<i64>,
    /// Amounts that are held, by flavor and resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub usage: Vec<FlavorUsage>,
    /// Share that the queue and all queues below it have had for their weight: of the resource that
    /// they had most of, as a part of all that the cluster has. The queue with the smallest share
    /// has the next turn. It has three digits after the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// State that the operator keeps for itself. Not part of the API: any release may change it.
    #[serde(default, skip_serializing_if = "InternalQueueStatus::is_empty")]
    pub internal: InternalQueueStatus,
    /// Conditions: Active.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// State of a queue that the operator keeps for itself. Not part of the API.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InternalQueueStatus {
    /// Usage of the queue and those below it, of which half is forgotten in 7 days, as of
    /// `decayedTime`: the scheduler takes turns by it after a restart of the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub decayed_usage: Vec<DecayedUsage>,
    /// Time at which `decayedUsage` was computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decayed_time: Option<Time>,
}

impl InternalQueueStatus {
    /// True if there is nothing to keep: the field is then absent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
