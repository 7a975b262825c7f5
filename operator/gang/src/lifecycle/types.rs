//! Input and result of the lifecycle.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::{TrainingJobSpec, TrainingJobStatus};
use trellis_api::pod_group::PodGroupStatus;

use crate::observed::{EvictionDecision, PodView};
use crate::{DesiredAttempt, DesiredGang, GangExplanation, JobHold};

/// Result of checking the job's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobReadiness {
    /// The spec is valid, compiled and authorized: the job may run.
    Runnable {
        /// Hash of the compiled job.
        compiled: String,
    },
    /// The job is refused, waiting or blocked.
    OnHold(JobHold),
}

impl From<JobHold> for JobReadiness {
    fn from(hold: JobHold) -> Self {
        Self::OnHold(hold)
    }
}

/// The observed state of one job.
#[derive(Clone, Copy)]
pub struct ObservedJob<'a> {
    /// The wall-clock time.
    pub now: Timestamp,
    /// When the job was created.
    pub created: Timestamp,
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// Uid of the job.
    pub uid: &'a str,
    /// The spec of the current stage.
    pub spec: &'a TrainingJobSpec,
    /// The spec with the task groups of all stages.
    pub whole_spec: &'a TrainingJobSpec,
    /// The current status.
    pub status: &'a TrainingJobStatus,
    /// Result of checking the spec.
    pub readiness: &'a JobReadiness,
    /// Why policies evict the gang. None if they do not.
    pub eviction_reason: Option<&'a str>,
    /// Queue of the job, once it is known.
    pub queue: Option<&'a str>,
    /// The journal.
    pub journal: &'a PodGroupStatus,
    /// True if the PodGroup is in the cache and belongs to the job, so that an empty journal is
    /// reliable.
    pub has_journal: bool,
    /// Pods with the job's name.
    pub pods: &'a BTreeMap<String, PodView>,
    /// True for a lost node.
    pub is_lost: &'a dyn Fn(&str) -> bool,
    /// Why a node is unhealthy. None if it is healthy or unknown.
    pub unhealthy_reason: &'a dyn Fn(&str) -> Option<String>,
    /// True for a node that takes new pods.
    pub is_open: &'a dyn Fn(&str) -> bool,
    /// Tells whether the pods on an unhealthy node may be evicted now. Called only for nodes with
    /// running pods.
    pub eviction_decision: &'a dyn Fn(&str) -> EvictionDecision,
    /// The scheduler's explanation for a waiting gang, if there is one.
    pub explanation: Option<&'a GangExplanation>,
}

/// Result of one evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationResult {
    /// The new status, without `compiled`. None if there is nothing to report yet.
    pub status: Option<TrainingJobStatus>,
    /// The wish for the gang once the status is written.
    pub desired: DesiredGang<DesiredAttempt>,
    /// Time of the next evaluation if no event comes before.
    pub next_check: Option<Timestamp>,
    /// Objects to remove because a time to live is over.
    pub expired: ExpiredObjects,
}

/// Objects of an ended job that are to be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpiredObjects {
    /// Nothing yet.
    #[default]
    Nothing,
    /// All children of the job.
    Children,
    /// The job itself, and with it all its children.
    Job,
}
