//! Policy decisions that may evict the running gang of a job.

use trellis_api::job::JobProfile;
use trellis_gang::journal::eviction::{EvictionReasons, eviction_reasons};
use trellis_policies::cedar::JobDecision;

use crate::job_context::JobContext;

/// The decisions of policies with `onViolation: Evict` on a built job.
#[derive(Clone, Debug)]
pub(crate) struct EvictingDecisions {
    /// Decision on the job. If its stamp is not trusted, also the decision for the requester that
    /// the stamp names.
    decisions: Vec<JobDecision>,
    /// Hash of the compiled job.
    compiled: String,
    /// Profile with which the job was compiled.
    profile: Option<JobProfile>,
}

impl EvictingDecisions {
    /// Returns the decisions. None if no decision evicts the job. `believed` is the decision for
    /// the requester of a stamp that is not trusted.
    pub(crate) fn from_decisions(
        decision: JobDecision,
        believed: Option<JobDecision>,
        compiled: String,
        profile: Option<JobProfile>,
    ) -> Option<Self> {
        if decision.eviction_reasons(|_| true).is_empty() {
            return None;
        }
        Some(Self {
            decisions: [decision].into_iter().chain(believed).collect(),
            compiled,
            profile,
        })
    }

    /// Returns the reasons to evict the running gang. Empty if they are not certain.
    pub(crate) fn eviction_reasons(&self, job_context: &JobContext) -> EvictionReasons {
        let Some(plan) = job_context
            .placed_plan()
            .filter(|_| job_context.is_placed())
        else {
            return EvictionReasons::new();
        };
        // The decisions are about the running gang only if it was compiled with the same profile.
        let is_what_runs =
            plan.compiled == self.compiled || job_context.status_profile() == self.profile.as_ref();
        if !(job_context.namespace_labels.is_some() && is_what_runs) {
            return EvictionReasons::new();
        }
        eviction_reasons(plan, &self.decisions)
    }
}
