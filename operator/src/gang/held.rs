//! Why a job does not start: the one answer of all who judge a job before it is placed.

use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_policies::cedar::NotAuthorized;

use super::lookup::Missing;
use crate::gang::unsupported::Unsupported;

/// Why a job does not start, as its status bears it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Refused, Waiting or Blocked.
    pub phase: JobPhase,
    /// Why.
    pub reason: Reason,
    /// The same in words.
    pub message: String,
}

impl Held {
    /// Until it changes, or what refuses it does.
    pub(crate) const fn refused(reason: Reason, message: String) -> Self {
        Self {
            phase: JobPhase::Refused,
            reason,
            message,
        }
    }

    /// Until what it waits for is there.
    pub(crate) const fn waits(reason: Reason, message: String) -> Self {
        Self {
            phase: JobPhase::Waiting,
            reason,
            message,
        }
    }

    /// Until somebody acts.
    pub(crate) const fn blocked(reason: Reason, message: String) -> Self {
        Self {
            phase: JobPhase::Blocked,
            reason,
            message,
        }
    }

    /// True if it stays so until the job changes, or what refuses it.
    pub(crate) fn is_refused(&self) -> bool {
        self.phase == JobPhase::Refused
    }
}

impl From<Missing> for Held {
    fn from(missing: Missing) -> Self {
        Self::waits(missing.reason, missing.message)
    }
}

impl From<Unsupported> for Held {
    /// What nobody evaluates is refused until the job or its profile changes.
    fn from(unsupported: Unsupported) -> Self {
        Self::refused(unsupported.reason, unsupported.message)
    }
}

impl From<&NotAuthorized> for Held {
    /// What is denied is refused until the job or a policy changes; what nobody can decide waits.
    fn from(not: &NotAuthorized) -> Self {
        let held = match not {
            NotAuthorized::Denied(_) => Self::refused,
            NotAuthorized::Undecided { .. } => Self::waits,
        };
        held(not.reason(), not.to_string())
    }
}
