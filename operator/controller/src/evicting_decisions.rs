//! Policy decisions that may evict the running gang of a job.

use trellis_api::job::JobProfile;
use trellis_gang::eviction::{EvictionReasons, eviction_reasons};
use trellis_policies::cedar::JobDecision;

use super::job_context::JobContext;

/// Demands of a job, as it was built, that evicting policies forbid.
#[derive(Clone, Debug)]
pub(super) struct EvictingDecisions {
    /// Decision on the job as it is. If its stamp is not trusted, also the decision for the
    /// requester that the stamp names.
    decisions: Vec<JobDecision>,
    /// Hash of the compiled job.
    compiled: String,
    /// Profile with which the job was compiled.
    profile: Option<JobProfile>,
}

impl EvictingDecisions {
    /// None: no demand is a reason to evict the job.
    pub(super) fn from_decisions(
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

    /// Reasons to evict the running gang. Empty if they are not certain.
    pub(super) fn eviction_reasons(&self, seen: &JobContext) -> EvictionReasons {
        let Some(plan) = seen.placed_plan().filter(|_| seen.is_placed()) else {
            return EvictionReasons::new();
        };
        // Compiled with another profile it is not what runs.
        let is_what_runs =
            plan.compiled == self.compiled || seen.status_profile() == self.profile.as_ref();
        if !(seen.namespace_labels.is_some() && is_what_runs) {
            return EvictionReasons::new();
        }
        eviction_reasons(plan, &self.decisions)
    }
}
