//! Why a job does not start: the common result of all checks before placement.

use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_policies::cedar::NotAuthorized;

/// Why a job does not start, as its status reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobHold {
    /// Refused, Waiting or Blocked.
    pub phase: JobPhase,
    /// The reason.
    pub reason: Reason,
    /// The reason in words.
    pub message: String,
}

impl JobHold {
    /// Refuses the job until it changes, or the rule that refuses it.
    pub const fn refused(reason: Reason, message: String) -> Self {
        Self {
            phase: JobPhase::Refused,
            reason,
            message,
        }
    }

    /// Keeps the job waiting until an object that it needs exists.
    pub const fn waiting(reason: Reason, message: String) -> Self {
        Self {
            phase: JobPhase::Waiting,
            reason,
            message,
        }
    }

    /// Blocks the job until a user acts.
    pub const fn blocked(reason: Reason, message: String) -> Self {
        Self {
            phase: JobPhase::Blocked,
            reason,
            message,
        }
    }

    /// Returns true if only a change of the job, or of the rule that refuses it, can end this.
    pub fn is_refused(&self) -> bool {
        self.phase == JobPhase::Refused
    }
}

impl From<&NotAuthorized> for JobHold {
    /// A denial refuses the job until the job or a policy changes. A decision that is not possible
    /// yet keeps it waiting.
    fn from(refusal: &NotAuthorized) -> Self {
        let new_hold = match refusal {
            NotAuthorized::Denied(_) => Self::refused,
            NotAuthorized::Undecided { .. } => Self::waiting,
        };
        new_hold(refusal.reason(), refusal.to_string())
    }
}
