//! The gangs that the jobs of a queue may preempt.

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Gangs that the jobs of a queue may preempt. The words are Kueue's.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::BORROW_WITHIN.to_cel_rule())]
#[x_kube(validation = rules::FAIR_SHARE.to_cel_rule())]
pub struct QueuePreemption {
    /// Gangs in the same queue that a job may preempt. Absent: Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_cluster_queue: Option<WithinClusterQueue>,
    /// Gangs in borrowing queues that a job may preempt to reclaim its own queue's quota. Absent:
    /// Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_within_cohort: Option<ReclaimWithinCohort>,
    /// Preemption by a job that would borrow. Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive, custom(rules::borrow_within(self)))]
    pub borrow_within_cohort: Option<BorrowWithinCohort>,
    /// Gangs that a job may preempt in queues whose share of borrowed quota is larger than the share
    /// of this queue with the job. Absent: Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(custom(rules::fair_share(self)))]
    pub fair_share: Option<FairShareVictims>,
}

/// Gangs that a job may preempt to get its queue's fair share of borrowed quota. Never: none;
/// LowerPriority: those of lower priority; LowerOrEqualPriority: those of lower or equal priority;
/// Any: all. Absent: Never.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FairShareVictims {
    /// No gang.
    #[default]
    Never,
    /// Gangs of lower priority.
    LowerPriority,
    /// Gangs of lower or equal priority.
    LowerOrEqualPriority,
    /// Gangs of any priority.
    Any,
}

/// Gangs in the same queue that a job may preempt. Never: none; LowerPriority: those of lower
/// priority; LowerOrNewerEqualPriority: also those of equal priority that were submitted later.
/// Absent: Never.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WithinClusterQueue {
    /// No gang.
    #[default]
    Never,
    /// Gangs of lower priority.
    LowerPriority,
    /// Gangs of lower priority, and gangs of equal priority that were submitted later.
    LowerOrNewerEqualPriority,
}

/// Gangs in borrowing queues that a job may preempt to reclaim its own queue's quota. Never: none;
/// LowerPriority: those of lower priority; Any: all. Absent: Never.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReclaimWithinCohort {
    /// No gang.
    #[default]
    Never,
    /// Gangs of lower priority.
    LowerPriority,
    /// Gangs of any priority.
    Any,
}

/// Gangs in borrowing queues that a job may preempt if it would borrow itself.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::MAX_PRIORITY.to_cel_rule())]
pub struct BorrowWithinCohort {
    /// Gangs that may be preempted. Absent: Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<BorrowWithinCohortPolicy>,
    /// Highest priority of a victim. Absent: any priority lower than the job's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(custom(rules::max_priority(self)))]
    pub max_priority_threshold: Option<i32>,
}

/// Gangs in borrowing queues that a job may preempt if it would borrow itself. Never: none;
/// LowerPriority: those of lower priority. Absent: Never.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BorrowWithinCohortPolicy {
    /// No gang.
    #[default]
    Never,
    /// Gangs of lower priority.
    LowerPriority,
}
