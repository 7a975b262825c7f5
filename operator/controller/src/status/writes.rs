//! Decides whether and when a status is written. A number that changes in the status of ten
//! thousand waiting jobs must not cause ten thousand writes.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_gang::GangExplanation;
use trellis_gang::key::Key;
use trellis_machine::clock;

use crate::{COUNTS_INTERVAL, Controller};

/// When to patch the status.
pub(crate) enum StatusWrite {
    /// With the next write for another reason.
    None,
    /// Not before this time.
    Later(Timestamp),
    Now,
}

/// Importance of a change of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusChange {
    /// The change is part of the next write for another reason.
    Insignificant,
    /// Only counts or a message have changed. The writes are throttled.
    CountsOnly,
    Significant,
}

impl Controller {
    /// Decides whether and when the status is written. Writes of counts alone are throttled, so a
    /// gang of a thousand pods does not cause a thousand writes.
    pub(crate) fn due_write(
        &self,
        key: &Key,
        before: &TrainingJobStatus,
        after: &TrainingJobStatus,
        explanation: Option<&GangExplanation>,
    ) -> StatusWrite {
        match classify_change(before, after, explanation) {
            StatusChange::Insignificant => return StatusWrite::None,
            StatusChange::CountsOnly => {}
            StatusChange::Significant => {
                self.counts_written
                    .lock()
                    .insert(key.clone(), Instant::now());
                return StatusWrite::Now;
            }
        }
        let mut counts_written = self.counts_written.lock();
        let due = counts_written
            .get(key)
            .and_then(|at| at.checked_add(COUNTS_INTERVAL))
            .filter(|due| *due > Instant::now());
        match due {
            Some(due) => {
                let wait = due.saturating_duration_since(Instant::now());
                let at = SignedDuration::try_from(wait)
                    .ok()
                    .and_then(|w| clock::now().checked_add(w).ok());
                StatusWrite::Later(at.unwrap_or(clock::now()))
            }
            None => {
                counts_written.insert(key.clone(), Instant::now());
                StatusWrite::Now
            }
        }
    }
}

fn classify_change(
    before: &TrainingJobStatus,
    after: &TrainingJobStatus,
    explanation: Option<&GangExplanation>,
) -> StatusChange {
    if before == after {
        return StatusChange::Insignificant;
    }
    // A change of one policy changes the hash in all jobs.
    let after = &with_policy_hash_of(before, after.clone());
    if without_counts(before) != without_counts(after) {
        return StatusChange::Significant;
    }
    // The current numbers of a waiting job are not written, because the aggregated API serves them.
    // Why an attempt failed is written, and numbers that the driver renews at a bounded rate.
    let is_current_explanation = explanation.is_some_and(|explanation| {
        !explanation.only_numbers_changed
            && after.phase == Some(JobPhase::Queued)
            && after.reason == Some(explanation.reason)
            && after.full_message() == explanation.message
            && explanation.reason != Reason::BackingOff
    });
    let differs = if is_current_explanation {
        without_message(before.clone()) != without_message(after.clone())
    } else {
        before != after
    };
    if differs {
        StatusChange::CountsOnly
    } else {
        StatusChange::Insignificant
    }
}

/// Returns the status with the policy hash of `before`, if both have a hash.
fn with_policy_hash_of(
    before: &TrainingJobStatus,
    mut status: TrainingJobStatus,
) -> TrainingJobStatus {
    if let (Some(before), Some(after)) = (&before.policy, &mut status.policy)
        && before.set_hash.is_some()
        && after.set_hash.is_some()
    {
        after.set_hash.clone_from(&before.set_hash);
    }
    status
}

fn without_counts(status: &TrainingJobStatus) -> TrainingJobStatus {
    let mut stripped = status.clone();
    stripped.pods = None;
    stripped.ready = None;
    stripped.nodes = None;
    // Each surplus pod that joins may change it.
    stripped.placement.clear();
    // A thousand ranks may report their checkpoints and ends one after the other.
    stripped.checkpoint = None;
    stripped.internal.finished_pods = None;
    // Awaited pods may be created one by one. The round changes when new pods are awaited.
    if let Some(awaited) = &mut stripped.internal.awaited_pods {
        awaited.pods.clear();
    }
    for object in &mut stripped.compiled {
        object.ready = false;
    }
    // In these phases, the message and the messages of the conditions contain counts.
    if matches!(
        stripped.phase,
        Some(JobPhase::Starting | JobPhase::Restarting | JobPhase::Queued)
    ) {
        return without_message(stripped);
    }
    stripped
}

fn without_message(mut status: TrainingJobStatus) -> TrainingJobStatus {
    status.message = None;
    for condition in &mut status.conditions {
        condition.message.clear();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_with(phase: JobPhase, reason: Reason, message: &str) -> TrainingJobStatus {
        TrainingJobStatus {
            phase: Some(phase),
            reason: Some(reason),
            message: Some(message.to_owned()),
            ..TrainingJobStatus::default()
        }
    }

    fn explanation_with(reason: Reason, message: &str) -> GangExplanation {
        GangExplanation::waiting(reason, message.to_owned())
    }

    #[test]
    fn changed_numbers_are_written_only_when_renewed() {
        let reason = Reason::InsufficientCapacity;
        let before = status_with(JobPhase::Queued, reason, "8 are missing");
        let after = status_with(JobPhase::Queued, reason, "6 are missing");
        let now = explanation_with(reason, "6 are missing");
        assert_eq!(
            classify_change(&before, &after, Some(&now)),
            StatusChange::Insignificant
        );
        let renewed = GangExplanation {
            only_numbers_changed: true,
            ..now.clone()
        };
        assert_eq!(
            classify_change(&before, &after, Some(&renewed)),
            StatusChange::CountsOnly
        );
        // The first message of a reason is written with it.
        let new = status_with(JobPhase::Queued, Reason::Fragmented, "6 are missing");
        let explanation = explanation_with(Reason::Fragmented, "6 are missing");
        assert_eq!(
            classify_change(&before, &new, Some(&explanation)),
            StatusChange::Significant
        );
        // They are part of a write for another reason.
        let mut counts = after.clone();
        counts.ready = Some("0/4".to_owned());
        assert_eq!(
            classify_change(&before, &counts, Some(&now)),
            StatusChange::CountsOnly
        );
        let mut attempt = after;
        attempt.attempt = Some(2);
        assert_eq!(
            classify_change(&before, &attempt, Some(&now)),
            StatusChange::Significant
        );
    }

    #[test]
    fn new_failure_message_is_written_with_the_same_reason() {
        let before = status_with(JobPhase::Queued, Reason::PodRefused, "one policy");
        let after = status_with(JobPhase::Queued, Reason::PodRefused, "another policy");
        let earlier_explanation = explanation_with(Reason::Fragmented, "6 are missing");
        for explanation in [None, Some(&earlier_explanation)] {
            assert_eq!(
                classify_change(&before, &after, explanation),
                StatusChange::CountsOnly
            );
        }
        let before = status_with(JobPhase::Queued, Reason::BackingOff, "one");
        let after = status_with(JobPhase::Queued, Reason::BackingOff, "another");
        let explanation = explanation_with(Reason::BackingOff, "another");
        assert_eq!(
            classify_change(&before, &after, Some(&explanation)),
            StatusChange::CountsOnly
        );
        assert_eq!(
            classify_change(&after, &after, Some(&explanation)),
            StatusChange::Insignificant
        );
    }
}
