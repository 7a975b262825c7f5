//! Finds the running jobs that policies would evict, as the operator would do.

use trellis_api::TrainingJob;
use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::build::NO_LABELS;
use trellis_gang::journal::eviction::eviction_reasons;
use trellis_gang::key::Key;
use trellis_policies::cedar::{Policies, Requester};

use super::decisions::JobToDecide;
use crate::plan::existing_job::next_attempt;
use crate::plan::snapshot::ClusterSnapshot;
use crate::requester_options::known_requester;

/// Returns the ids of the policies that would evict a placed job.
/// Such a policy forbids the job and has `onViolation: Evict`.
pub(super) fn evicting_policies(
    facts: &ClusterSnapshot,
    existing: Option<&TrainingJob>,
    policies: &Policies,
) -> Vec<String> {
    let Some(job) = existing.filter(|job| !job.spec.is_suspended()) else {
        return Vec::new();
    };
    let group = facts.pod_groups.get(&Key::from_meta(&job.metadata));
    let journal = group.and_then(|group| group.status.as_ref());
    let journal = journal.filter(|journal| journal.phase == Some(PodGroupPhase::Placed));
    let plan = journal.and_then(|journal| journal.plan.as_ref());
    let Some(plan) = plan.filter(|plan| plan.attempt == next_attempt(existing)) else {
        return Vec::new();
    };
    let decide = |requester: &Option<Requester>| {
        let to_decide = JobToDecide {
            job,
            in_cluster: existing,
            requester: requester.as_ref(),
        };
        // The pods that run belong to the first of these stages.
        let stages = to_decide.judge(policies, facts, &NO_LABELS);
        Some(stages.ok()?.into_iter().next()?.decision)
    };
    // A job is not evicted if its decision cannot be made.
    let decisions: Option<Vec<_>> = possible_requesters(job).iter().map(decide).collect();
    let evicting = eviction_reasons(plan, &decisions.unwrap_or_default());
    evicting.into_keys().collect()
}

/// Returns the possible requesters.
/// If the operator does not trust the stamp, both the stamped requester and an unknown requester
/// are possible.
fn possible_requesters(job: &TrainingJob) -> Vec<Option<Requester>> {
    let known = known_requester(job);
    let named = trellis_cache::policy::stamped_requester(&job.metadata);
    let doubted = named.filter(|_| known.is_none()).map(Some);
    [known].into_iter().chain(doubted).collect()
}
