//! [`TrainingQueue`]: quota of jobs, and the order in which they start.

mod flavor_policy;
mod preemption;

use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{Amount, QuantityError};
use crate::{Quantity, ResourcesPerGpu, rules};

pub use flavor_policy::{FlavorPolicy, WhenCanBorrow, WhenCanPreempt};
pub use preemption::{
    BorrowWithinCohort, BorrowWithinCohortPolicy, FairShareVictims, QueuePreemption,
    ReclaimWithinCohort, WithinClusterQueue,
};

/// Name of the flavor that contains every node and needs no object.
pub const DEFAULT_FLAVOR: &str = "default";

/// A queue of jobs, with the quota that they share.
///
/// Names and arithmetic follow Kueue's ClusterQueue, so that its users can migrate.
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
    doc = "A queue of jobs, with the quota that they share.",
    validation = rules::QUEUE_OBJECT_NAME.to_cel_rule(),
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parentName"),
    printcolumn(name = "Pending", type_ = "integer", json_path = ".status.pending"),
    printcolumn(name = "Admitted", type_ = "integer", json_path = ".status.admitted"),
    printcolumn(name = "Active", type_ = "string", json_path = ".status.conditions[?(@.type==\"Active\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Active\")].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "string", json_path = ".spec.weight", priority = "1"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority", priority = "1"),
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.queueingStrategy", priority = "1"),
    printcolumn(name = "Stop", type_ = "string", json_path = ".spec.stopPolicy", priority = "1"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct QueueSpec {
    /// Name of the parent TrainingQueue. Queues below one parent may borrow each other's idle
    /// quota. Only queues without children accept jobs. Absent: no parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::queue_name)))]
    #[x_kube(validation = rules::QUEUE_NAME.to_cel_rule())]
    pub parent_name: Option<String>,
    /// Share of turns, relative to other queues: a queue with weight 2 gets twice as much as a
    /// queue with weight 1. 0 to 1000, rounded up to thousandths, such as 2 or "0.5". A queue with
    /// weight 0 has its turn after all queues with a higher weight. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::weight)))]
    #[x_kube(validation = rules::WEIGHT.to_cel_rule())]
    pub weight: Option<Quantity>,
    /// Priority among queues with the same parent. Among those that stay within their quota with the
    /// next job, the queue with the highest priority has the next turn, whatever the shares.
    /// Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Order in which jobs start. Absent: BestEffortFIFO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queueing_strategy: Option<QueueingStrategy>,
    /// Quota by resource. Absent: the queue may use all capacity of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[garde(length(max = 16), dive, custom(rules::unique_quota_resources))]
    #[x_kube(validation = rules::UNIQUE_QUOTA_RESOURCES.to_cel_rule())]
    pub resource_groups: Vec<ResourceGroup>,
    /// Namespaces whose jobs may use the queue. Absent: none; `{}`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Namespaces whose jobs go to this queue if they name none. `{}`: all namespaces that no other
    /// queue selects. If several queues select a namespace, the selector with the most labels and
    /// expressions wins, then the first by name. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_for: Option<LabelSelector>,
    /// When a job tries the next flavor although it could use one. Absent: it borrows in the first
    /// flavor, and preempts only if no flavor has quota and nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor_policy: Option<FlavorPolicy>,
    /// Gangs that the queue's jobs may preempt. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub preemption: Option<QueuePreemption>,
    /// Permission to start jobs before other jobs that wait for room. Absent: WithoutDelay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backfill_policy: Option<BackfillPolicy>,
    /// Runtime in seconds that backfill assumes for a job, if neither the job
    /// (`deadlines.activeSeconds`) nor its earlier runs give one. The operator never stops a job
    /// because of it. Absent: backfill assumes no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::runtime)))]
    #[x_kube(validation = rules::RUNTIME.to_cel_rule())]
    pub default_runtime_seconds: Option<i64>,
    /// CPU and memory for each GPU of task groups, if neither the group nor its RuntimeProfile
    /// states them. A value that is absent here comes from the nearest queue above that states it.
    #[serde(rename = "resourcesPerGPU", skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub resources_per_gpu: Option<ResourcesPerGpu>,
    /// Largest effective `minRuntimeSeconds` of the queue's jobs, in seconds. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::min_runtime)))]
    #[x_kube(validation = rules::MIN_RUNTIME.to_cel_rule())]
    pub max_min_runtime_seconds: Option<i64>,
    /// Stop of the queue. Hold: no job starts; HoldAndDrain: also, running jobs are evicted. None:
    /// the queue is open. Absent: None.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_policy: Option<StopPolicy>,
    /// Jobs for which the operator may ask for new nodes. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub provisioning: Option<QueueProvisioning>,
}

impl QueueSpec {
    /// Returns the weight in thousandths, by default 1000. An invalid weight gives 0.
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

/// Resources that share a list of flavors.
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
    /// Quota by flavor, in the order in which the scheduler tries the flavors.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(min = 1, max = 16), dive, custom(rules::unique_flavors))]
    pub flavors: Vec<FlavorQuotas>,
}

/// Quota in one flavor.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct FlavorQuotas {
    /// Name of a ResourceFlavor. `default` needs no object and contains every node.
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
    /// Amount that the queue's jobs may hold together. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::nominal)))]
    #[x_kube(validation = rules::NOMINAL.to_cel_rule())]
    pub nominal_quota: Option<Quantity>,
    /// Amount that the queue may borrow beyond its quota. Absent: all idle quota of other queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::nominal)))]
    #[x_kube(validation = rules::NOMINAL.to_cel_rule())]
    pub borrowing_limit: Option<Quantity>,
    /// Amount of the queue's quota that other queues may borrow. Absent: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::nominal)))]
    #[x_kube(validation = rules::NOMINAL.to_cel_rule())]
    pub lending_limit: Option<Quantity>,
}

impl ResourceQuota {
    /// Returns the nominal quota, by default 0.
    ///
    /// # Errors
    /// The quota is not a valid amount. Validation refuses this.
    pub fn nominal_amount(&self) -> Result<Amount, QuantityError> {
        let nominal = self.nominal_quota.as_ref();
        nominal.map_or(Ok(Amount::ZERO), Quantity::amount)
    }
}

/// Order in which the queue's jobs start: by priority, then by submission. BestEffortFIFO: a later
/// job may pass a job that cannot start; StrictFIFO: no job passes the head, unless a start of the
/// head has just failed. Absent: BestEffortFIFO.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QueueingStrategy {
    /// A later job may pass a job that cannot start.
    #[default]
    #[serde(rename = "BestEffortFIFO")]
    BestEffortFifo,
    /// No job passes the head, unless a start of the head has just failed.
    #[serde(rename = "StrictFIFO")]
    StrictFifo,
}

/// Permission to start jobs before other jobs that wait for room. WithoutDelay: if the other jobs
/// start no later; Never: not at all. Absent: WithoutDelay.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BackfillPolicy {
    /// A job may start early if the other jobs start no later.
    #[default]
    WithoutDelay,
    /// No job starts early.
    Never,
}

/// Jobs of a queue for which the operator may order new nodes, of flavors with `provisioning`.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct QueueProvisioning {
    /// Jobs for which the operator orders nodes. Absent: Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<ProvisioningScope>,
    /// Seconds for which a job must lack nothing but nodes before the operator orders some. Running
    /// jobs may end meanwhile. Absent: 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::provisioning_delay)))]
    #[x_kube(validation = rules::PROVISIONING_DELAY.to_cel_rule())]
    pub after_seconds: Option<i64>,
    /// Choice between new nodes and preemption. Absent: BeforePreemption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<ProvisioningTime>,
}

impl QueueSpec {
    /// Returns true if the operator orders new nodes for some jobs of the queue.
    #[must_use]
    pub fn orders_nodes(&self) -> bool {
        let order = self.provisioning.as_ref().and_then(|policy| policy.order);
        order.unwrap_or_default() != ProvisioningScope::Never
    }
}

impl QueueProvisioning {
    /// Returns the seconds for which a job must lack nothing but nodes, by default 30.
    #[must_use]
    pub fn after_seconds(&self) -> i64 {
        self.after_seconds.unwrap_or(30)
    }
}

/// Jobs for which the operator orders new nodes. Never: none; Nominal: those with which the queue
/// stays within its own quota; Borrowing: all that quota admits. Absent: Never.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ProvisioningScope {
    /// No job.
    #[default]
    Never,
    /// Jobs with which the queue stays within its own quota.
    Nominal,
    /// All jobs that quota admits, even if the queue borrows.
    Borrowing,
}

/// Choice between new nodes and preemption, for a job that could start with either.
/// BeforePreemption: new nodes; AfterPreemption: preemption. Absent: BeforePreemption.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ProvisioningTime {
    /// The operator orders new nodes, and evicts no job.
    #[default]
    BeforePreemption,
    /// The operator evicts jobs if it may, and orders new nodes only otherwise.
    AfterPreemption,
}

/// State of the queue. None: it is open; Hold: no job starts, and running jobs go on; HoldAndDrain:
/// no job starts, and the operator evicts running jobs. Absent: None.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StopPolicy {
    /// The queue is open.
    #[default]
    None,
    /// No job starts; running jobs go on.
    Hold,
    /// No job starts, and the operator evicts running jobs, which then wait in the queue again.
    HoldAndDrain,
}

/// Usage of one resource of one flavor.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FlavorUsage {
    /// Name of the flavor.
    pub flavor: String,
    /// Name of the resource.
    pub resource: String,
    /// Amount that counts against the quota: usage of the queue's jobs, and usage of queues below
    /// it beyond their own quota.
    pub used: Quantity,
    /// Amount used beyond the quota.
    pub borrowed: Quantity,
}

/// Decayed usage of one resource, over all flavors.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DecayedUsage {
    /// Name of the resource.
    pub resource: String,
    /// Decayed amount.
    pub amount: Quantity,
}

/// Observed state of a TrainingQueue.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of pending jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<i64>,
    /// Number of admitted jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted: Option<i64>,
    /// Usage by flavor and resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub usage: Vec<FlavorUsage>,
    /// Usage of the queue and the queues below it, divided by the weight: the amount of its
    /// dominant resource as a part of the cluster's total, with three decimal places. The queue
    /// with the smallest share has the next turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// The part of current usage beyond quota, divided by the weight: the amount of the dominant
    /// resource as a part of the cluster's total, with three decimal places. With
    /// `preemption.fairShare`, a queue takes from siblings whose `borrowedShare` is larger.
    /// `unweighted` if the weight is 0. Absent: no parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub borrowed_share: Option<String>,
    /// Internal state of the operator. Not part of the API: any release may change it.
    #[serde(default, skip_serializing_if = "InternalQueueStatus::is_empty")]
    pub internal: InternalQueueStatus,
    /// Conditions: Active, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Internal state of the operator for a queue. Not part of the API.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InternalQueueStatus {
    /// Usage of the queue and the queues below it at `decayedTime`, with a half-life of 7 days. The
    /// scheduler takes turns by it after a restart of the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub decayed_usage: Vec<DecayedUsage>,
    /// Time at which `decayedUsage` was computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decayed_time: Option<Time>,
}

impl InternalQueueStatus {
    /// True if there is no internal state: the field is then absent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
