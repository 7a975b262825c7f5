//! Metrics about changes of a job's status. Each change counts once, when it is written.

use std::time::Duration;

use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_dispatch::OperatorMetrics;
use trellis_gang::key::Key;

/// Counts the changes between two statuses of a job.
pub(crate) fn count_status_change(
    counts: &OperatorMetrics,
    job: &Key,
    before: &TrainingJobStatus,
    after: &TrainingJobStatus,
) {
    if let Some(took) = start_duration(before, after) {
        counts.observe_start(job, took);
    }
    if let Some(reason) = attempt_end_reason(before, after) {
        counts.count_ended_attempt(reason);
    }
    if let (false, true, Some(phase)) = (before.has_ended(), after.has_ended(), after.phase) {
        counts.count_ended_job(phase, after.reason.unwrap_or(Reason::Unrecognized));
    }
}

/// Returns the time from the creation of a gang's pods until all pods run, if they run now for the
/// first time.
fn start_duration(before: &TrainingJobStatus, after: &TrainingJobStatus) -> Option<Duration> {
    let runs = |status: &TrainingJobStatus| status.phase == Some(JobPhase::Running);
    if runs(before) || !runs(after) {
        return None;
    }
    let (placed, runs) = (after.scheduled_time.as_ref()?, after.running_time.as_ref()?);
    Duration::try_from(runs.0.duration_since(placed.0)).ok()
}

/// Returns why the last attempt has ended, if another attempt follows. The end of a stage does not
/// count.
fn attempt_end_reason<'s>(
    before: &TrainingJobStatus,
    after: &'s TrainingJobStatus,
) -> Option<&'s str> {
    let earlier = before.attempt?;
    let is_next = after.attempt.is_some_and(|attempt| attempt > earlier);
    if !is_next || after.stage != before.stage {
        return None;
    }
    let failure = after.last_failure.as_ref();
    let failure = failure.filter(|failure| failure.attempt == earlier);
    let failure = failure.map(|failure| failure.reason.as_str());
    failure.or(after.reason.map(Reason::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(status: Value) -> TrainingJobStatus {
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn start_duration_is_counted_once_from_the_placement() {
        let starting =
            status(json!({"phase": "Starting", "scheduledTime": "2026-01-01T00:00:00Z"}));
        let running = status(
            json!({"phase": "Running", "scheduledTime": "2026-01-01T00:00:00Z",
            "runningTime": "2026-01-01T00:00:07Z"}),
        );
        assert_eq!(
            start_duration(&starting, &running),
            Some(Duration::from_secs(7))
        );
        assert_eq!(start_duration(&running, &running), None);
        assert_eq!(start_duration(&running, &starting), None);
    }

    #[test]
    fn attempt_end_reason_is_the_failure_or_the_status_reason() {
        let first = status(json!({"attempt": 1, "phase": "Running"}));
        let failed = status(
            json!({"attempt": 2, "reason": "BackingOff", "lastFailure": {
            "attempt": 1, "reason": "OutOfMemory", "pod": "p", "time": "2026-01-01T00:00:00Z"}}),
        );
        assert_eq!(attempt_end_reason(&first, &failed), Some("OutOfMemory"));
        let preempted = status(json!({"attempt": 2, "reason": "Preempted"}));
        assert_eq!(attempt_end_reason(&first, &preempted), Some("Preempted"));
        let goes_on = status(json!({"attempt": 1, "reason": "Recovering"}));
        assert_eq!(attempt_end_reason(&first, &goes_on), None);
        let stage = status(json!({"attempt": 2, "reason": "StageComplete", "stage": {
            "number": 2, "of": 2, "firstAttempt": 2}}));
        assert_eq!(attempt_end_reason(&first, &stage), None);
        assert_eq!(
            attempt_end_reason(&TrainingJobStatus::default(), &first),
            None
        );
    }
}
