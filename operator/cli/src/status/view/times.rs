//! Describes how long a job has waited and run.

use k8s_openapi::jiff::Timestamp;
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, TrainingJobStatus};

use crate::output::{format_age, format_until};

/// Formats seconds as a duration.
fn format_seconds(seconds: i64) -> String {
    let end = Timestamp::from_second(seconds.max(0)).unwrap_or(Timestamp::UNIX_EPOCH);
    format_age(Timestamp::UNIX_EPOCH, end)
}

/// Formats the time since then.
#[must_use]
pub fn format_ago(then: Timestamp, now: Timestamp) -> String {
    format!("{} ago", format_age(then, now))
}

/// Describes how long the job waits for its placement, or waited before it.
#[must_use]
pub fn describe_wait(status: &TrainingJobStatus, now: Timestamp) -> String {
    let is_waiting = matches!(
        status.phase,
        Some(JobPhase::Waiting | JobPhase::Queued | JobPhase::Blocked | JobPhase::Restarting)
    );
    if is_waiting {
        let since = status.pending_since().map(|since| format_age(since, now));
        let retry = status.retry_time.as_ref().filter(|time| time.0 > now);
        let retry = retry.map(|time| {
            format!(
                "not placed again before {} from now",
                format_until(time.0, now)
            )
        });
        let since = since.map(|since| format!("{since} so far"));
        let parts: Vec<_> = since.into_iter().chain(retry).collect();
        return parts.join(", ");
    }
    let Some(placed) = status.scheduled_time.as_ref().map(|time| time.0) else {
        return String::new();
    };
    let stage = status.stage.as_ref().and_then(|stage| stage.since.as_ref());
    let begins = [
        status.queued_time.as_ref().map(|time| time.0),
        status.last_failure.as_ref().map(|failure| failure.time.0),
        status.last_preemption.as_ref().map(|last| last.time.0),
        stage.map(|since| since.0),
    ];
    // A failure after the placement did not delay it.
    let begins = begins.into_iter().flatten().filter(|time| *time <= placed);
    let waited = begins.max().map(|since| format_age(since, placed));
    let waited = waited.map(|waited| format!("{waited}, then placed"));
    format!(
        "{} {}",
        waited.unwrap_or_else(|| "placed".to_owned()),
        format_ago(placed, now)
    )
}

/// Describes the runtime in all attempts.
#[must_use]
pub fn describe_runtime(job: &TrainingJob, status: &TrainingJobStatus, now: Timestamp) -> String {
    let before = status.active_seconds.unwrap_or(0);
    let ended = status.completion_time.as_ref().map(|time| time.0);
    let since = status.running_time.as_ref().map(|time| time.0);
    let current = since.map(|since| {
        let end = ended.unwrap_or(now).as_second();
        end.saturating_sub(since.as_second()).max(0)
    });
    let all = before.saturating_add(current.unwrap_or(0));
    if all == 0 && current.is_none() {
        return String::new();
    }
    let limit = job.spec.deadlines.as_ref().and_then(|d| d.active_seconds);
    let limit = limit.map(|limit| format!(" of {} at most", format_seconds(limit)));
    let several = match (current, before) {
        (Some(current), before) if before > 0 => {
            format!(", {} in this attempt", format_seconds(current))
        }
        _ => String::new(),
    };
    format!(
        "{}{}{several}",
        format_seconds(all),
        limit.unwrap_or_default()
    )
}
