//! Decides whether and when a status is worth a patch. A number that changes in the status of ten
//! thousand waiting jobs must not cost ten thousand writes.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_gang::Certificate;
use trellis_gang::key::Key;

use super::{COUNTS_EVERY, Controller};

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
enum Worth {
    /// It goes with the next write.
    Nothing,
    /// Counts or a message: written now and then.
    Counts,
    News,
}

impl Controller {
    /// Decides whether and when the status is patched. Counts alone are patched now and then: a
    /// gang of a thousand pods must not cost a thousand patches.
    pub(super) fn due_write(
        &self,
        key: &Key,
        before: &TrainingJobStatus,
        after: &TrainingJobStatus,
        certificate: Option<&Certificate>,
    ) -> StatusWrite {
        match worth(before, after, certificate) {
            Worth::Nothing => return StatusWrite::None,
            Worth::Counts => {}
            Worth::News => {
                self.counted.lock().insert(key.clone(), Instant::now());
                return StatusWrite::Now;
            }
        }
        let mut counted = self.counted.lock();
        let due = counted
            .get(key)
            .and_then(|at| at.checked_add(COUNTS_EVERY))
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

fn worth(
    before: &TrainingJobStatus,
    after: &TrainingJobStatus,
    certificate: Option<&Certificate>,
) -> Worth {
    if before == after {
        return Worth::Nothing;
    }
    // Each change of a policy changes the hash in ten thousand jobs.
    let after = &with_hash_of(before, after.clone());
    if without_counts(before) != without_counts(after) {
        return Worth::News;
    }
    // Numbers of the moment are not written, because the endpoint serves them. Why a try failed is
    // written. So are numbers that the driver renews, at a bounded rate.
    let numbers = certificate.is_some_and(|certificate| {
        !certificate.is_renewed
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
        Worth::Counts
    } else {
        Worth::Nothing
    }
}

/// The status with the policy hash of `before`, if both have one.
fn with_hash_of(before: &TrainingJobStatus, mut status: TrainingJobStatus) -> TrainingJobStatus {
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

    fn says(phase: JobPhase, reason: Reason, message: &str) -> TrainingJobStatus {
        TrainingJobStatus {
            phase: Some(phase),
            reason: Some(reason),
            message: Some(message.to_owned()),
            ..TrainingJobStatus::default()
        }
    }

    fn told(reason: Reason, message: &str) -> Certificate {
        Certificate::waits(reason, message.to_owned())
    }

    #[test]
    fn numbers_of_the_moment_alone_are_written_where_they_have_been_renewed() {
        let lacks = Reason::InsufficientCapacity;
        let before = says(JobPhase::Queued, lacks, "8 are missing");
        let after = says(JobPhase::Queued, lacks, "6 are missing");
        let now = told(lacks, "6 are missing");
        assert_eq!(worth(&before, &after, Some(&now)), Worth::Nothing);
        let renewed = Certificate {
            is_renewed: true,
            ..now.clone()
        };
        assert_eq!(worth(&before, &after, Some(&renewed)), Worth::Counts);
        // The first message of a reason is written with it.
        let new = says(JobPhase::Queued, Reason::Fragmented, "6 are missing");
        let certificate = told(Reason::Fragmented, "6 are missing");
        assert_eq!(worth(&before, &new, Some(&certificate)), Worth::News);
        // They go with whatever else is written.
        let mut counts = after.clone();
        counts.ready = Some("0/4".to_owned());
        assert_eq!(worth(&before, &counts, Some(&now)), Worth::Counts);
        let mut attempt = after;
        attempt.attempt = Some(2);
        assert_eq!(worth(&before, &attempt, Some(&now)), Worth::News);
    }

    #[test]
    fn why_a_try_failed_is_written_though_the_reason_is_the_same() {
        let before = says(JobPhase::Queued, Reason::PodRefused, "one policy");
        let after = says(JobPhase::Queued, Reason::PodRefused, "another policy");
        let of_before = told(Reason::Fragmented, "6 are missing");
        for certificate in [None, Some(&of_before)] {
            assert_eq!(worth(&before, &after, certificate), Worth::Counts);
        }
        let before = says(JobPhase::Queued, Reason::BackingOff, "one");
        let after = says(JobPhase::Queued, Reason::BackingOff, "another");
        let certificate = told(Reason::BackingOff, "another");
        assert_eq!(worth(&before, &after, Some(&certificate)), Worth::Counts);
        assert_eq!(worth(&after, &after, Some(&certificate)), Worth::Nothing);
    }
}
