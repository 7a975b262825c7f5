//! Decides whether and when a status is worth a patch. A number that changes in the status of ten
//! thousand waiting jobs must not cost ten thousand writes.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_gang::GangExplanation;
use trellis_gang::key::Key;

use super::{COUNTS_INTERVAL, Controller};

/// When to patch the status.
pub(super) enum StatusWrite {
    /// Only together with another change.
    None,
    /// Not before this time.
    Later(Timestamp),
    Now,
}

/// Importance of a change of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusChange {
    /// It goes with the next write.
    Insignificant,
    /// Counts or a message: written now and then.
    CountsOnly,
    Significant,
}

impl Controller {
    /// Decides whether and when the status is patched. Counts alone are patched now and then: a
    /// gang of a thousand pods must not cost a thousand patches.
    pub(super) fn due_write(
        &self,
        key: &Key,
        before: &TrainingJobStatus,
        after: &TrainingJobStatus,
        certificate: Option<&GangExplanation>,
    ) -> StatusWrite {
        match classify_change(before, after, certificate) {
            StatusChange::Insignificant => return StatusWrite::None,
            StatusChange::CountsOnly => {}
            StatusChange::Significant => {
                self.counts_written
                    .lock()
                    .insert(key.clone(), Instant::now());
                return StatusWrite::Now;
            }
        }
        let mut counted = self.counts_written.lock();
        let due = counted
            .get(key)
            .and_then(|at| at.checked_add(COUNTS_INTERVAL))
            .filter(|due| *due > Instant::now());
        match due {
            Some(due) => {
                let wait = due.saturating_duration_since(Instant::now());
                let at = SignedDuration::try_from(wait)
                    .ok()
                    .and_then(|w| Timestamp::now().checked_add(w).ok());
                StatusWrite::Later(at.unwrap_or(Timestamp::now()))
            }
            None => {
                counted.insert(key.clone(), Instant::now());
                StatusWrite::Now
            }
        }
    }
}

fn classify_change(
    before: &TrainingJobStatus,
    after: &TrainingJobStatus,
    certificate: Option<&GangExplanation>,
) -> StatusChange {
    if before == after {
        return StatusChange::Insignificant;
    }
    // Each change of a policy changes the hash in ten thousand jobs.
    let after = &with_policy_hash_of(before, after.clone());
    if without_counts(before) != without_counts(after) {
        return StatusChange::Significant;
    }
    // Numbers of the moment are not written, because the endpoint serves them. Why a try failed is
    // written. So are numbers that the driver renews, at a bounded rate.
    let numbers = certificate.is_some_and(|certificate| {
        !certificate.only_numbers_changed
            && after.phase == Some(JobPhase::Queued)
            && after.reason == Some(certificate.reason)
            && after.full_message() == certificate.message
            && certificate.reason != Reason::BackingOff
    });
    let differs = if numbers {
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

/// The status with the policy hash of `before`, if both have one.
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
    let mut bare = status.clone();
    bare.pods = None;
    bare.ready = None;
    bare.nodes = None;
    // Up to a thousand ranks may report a checkpoint or their end.
    bare.checkpoint = None;
    bare.internal.finished_pods = None;
    // Awaited pods may come one by one. The round shows when new ones are awaited.
    if let Some(awaited) = &mut bare.internal.awaited_pods {
        awaited.pods.clear();
    }
    for object in &mut bare.compiled {
        object.ready = false;
    }
    // The message, also in the conditions, counts as a number while nothing else happens.
    if matches!(
        bare.phase,
        Some(JobPhase::Starting | JobPhase::Restarting | JobPhase::Queued)
    ) {
        return without_message(bare);
    }
    bare
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
        let lacks = Reason::InsufficientCapacity;
        let before = status_with(JobPhase::Queued, lacks, "8 are missing");
        let after = status_with(JobPhase::Queued, lacks, "6 are missing");
        let now = explanation_with(lacks, "6 are missing");
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
        let certificate = explanation_with(Reason::Fragmented, "6 are missing");
        assert_eq!(
            classify_change(&before, &new, Some(&certificate)),
            StatusChange::Significant
        );
        // They go with whatever else is written.
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
        let of_before = explanation_with(Reason::Fragmented, "6 are missing");
        for certificate in [None, Some(&of_before)] {
            assert_eq!(
                classify_change(&before, &after, certificate),
                StatusChange::CountsOnly
            );
        }
        let before = status_with(JobPhase::Queued, Reason::BackingOff, "one");
        let after = status_with(JobPhase::Queued, Reason::BackingOff, "another");
        let certificate = explanation_with(Reason::BackingOff, "another");
        assert_eq!(
            classify_change(&before, &after, Some(&certificate)),
            StatusChange::CountsOnly
        );
        assert_eq!(
            classify_change(&after, &after, Some(&certificate)),
            StatusChange::Insignificant
        );
    }
}
