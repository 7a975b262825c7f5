//! Reports that a child of a job cannot be written. A job without a place does not start meanwhile.

use trellis_api::Reason;
use trellis_dispatch::commands::WriteError;
use trellis_gang::JobHold;

/// State of a job that lacks a child because of this error. None: wait for the next try.
pub(super) fn waiting_state(error: &WriteError) -> Option<JobHold> {
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
        let told = |error: WriteError| match waiting_state(&error) {
            Some(JobHold {
                phase: JobPhase::Waiting,
                reason,
                message,
            }) => Some((reason, message.contains("why"))),
            _ => None,
        };
        let why = || "why".to_owned();
        assert_eq!(told(WriteError::Conflict(why())), None);
        assert_eq!(
            told(WriteError::Exhausted(why())),
            Some((Reason::ResourceQuotaExceeded, true))
        );
        for error in [
            WriteError::Webhook(why()),
            WriteError::Unauthorized(why()),
            WriteError::Transient(why()),
        ] {
            assert_eq!(told(error), Some((Reason::ChildMissing, true)));
        }
    }
}
