//! Reports that a child of a job cannot be written. Such a job does not start.

use trellis_api::Reason;
use trellis_dispatch::commands::WriteError;
use trellis_gang::JobHold;

/// Returns why a job waits that lacks a child because of this error. None if the next try may
/// succeed without a change.
pub(crate) fn waiting_state(error: &WriteError) -> Option<JobHold> {
    let reason = match error {
        WriteError::NotLeading(_)
        | WriteError::Withdrawn
        | WriteError::AlreadyExists(_)
        | WriteError::Conflict(_)
        | WriteError::NotFound(_) => {
            return None;
        }
        WriteError::Exhausted(_) => Reason::ResourceQuotaExceeded,
        WriteError::Refused { .. }
        | WriteError::Webhook(_)
        | WriteError::Unauthorized(_)
        | WriteError::Unanswered(_)
        | WriteError::Transient(_) => Reason::ChildMissing,
    };
    let message = format!("a child of the job: {error}");
    Some(JobHold::waiting(reason, message))
}

#[cfg(test)]
mod tests {
    use trellis_api::job::JobPhase;

    use super::*;

    #[test]
    fn lasting_child_error_makes_the_job_wait_with_its_reason() {
        let reason_of = |error: WriteError| match waiting_state(&error) {
            Some(JobHold {
                phase: JobPhase::Waiting,
                reason,
                message,
            }) => Some((reason, message.contains("why"))),
            _ => None,
        };
        let text = || "why".to_owned();
        assert_eq!(reason_of(WriteError::Conflict(text())), None);
        assert_eq!(
            reason_of(WriteError::Exhausted(text())),
            Some((Reason::ResourceQuotaExceeded, true))
        );
        for error in [
            WriteError::Webhook(text()),
            WriteError::Unauthorized(text()),
            WriteError::Transient(text()),
        ] {
            assert_eq!(reason_of(error), Some((Reason::ChildMissing, true)));
        }
    }
}
