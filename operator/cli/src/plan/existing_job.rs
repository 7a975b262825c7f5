//! The state of jobs and gangs that exist in the cluster.

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::{PodGroup, TrainingJob};
use trellis_gang::key::Key;
use trellis_plan::current_plan;

use super::snapshot::ClusterSnapshot;

/// Returns the next attempt of a job, from 1. `existing` is the job in the cluster.
pub(crate) fn next_attempt(existing: Option<&TrainingJob>) -> i64 {
    existing
        .and_then(|j| j.status.as_ref()?.attempt)
        .unwrap_or(1)
}

/// Returns the current stage of a job, from 1. `existing` is the job in the cluster.
pub(crate) fn current_stage(existing: Option<&TrainingJob>) -> u32 {
    let status = existing.and_then(|job| job.status.as_ref());
    status.map_or(1, |status| status.stage_number())
}

/// Returns true if the job has ended. `existing` is the job in the cluster.
pub(super) fn has_ended(existing: Option<&TrainingJob>) -> bool {
    let status = existing.and_then(|job| job.status.as_ref());
    status.is_some_and(TrainingJobStatus::has_ended)
}

/// Returns the time at which a job was queued.
pub(super) fn submission_time(job: &TrainingJob) -> Option<Timestamp> {
    let queued = job.status.as_ref().and_then(|s| s.queued_time.as_ref());
    queued
        .or(job.metadata.creation_timestamp.as_ref())
        .map(|t| t.0)
}

/// Returns the job of a gang that is pending in its queue.
pub(super) fn pending_job<'a>(
    snapshot: &'a ClusterSnapshot,
    key: &Key,
    group: &PodGroup,
) -> Option<&'a TrainingJob> {
    let job = snapshot.jobs.get(key)?;
    // A suspended job also has a PodGroup, but it blocks no other job.
    let phase = job.status.as_ref().and_then(|s| s.phase);
    (phase == Some(JobPhase::Queued) && current_plan(group).is_none()).then_some(job)
}
