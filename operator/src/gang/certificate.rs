//! Why a gang waits, or is refused.

use trellis_api::Reason;

/// What the scheduler says about a gang that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Why it waits.
    pub reason: Reason,
    /// The same in words, with numbers.
    pub message: String,
    /// It is refused for it, and does not merely wait.
    pub refused: bool,
    /// It tells the numbers of now for a reason that was told before: this alone is worth a
    /// write.
    pub is_renewed: bool,
}

impl Certificate {
    /// That it waits.
    #[must_use]
    pub fn waits(reason: Reason, message: String) -> Self {
        Self {
            reason,
            message,
            refused: false,
            is_renewed: false,
        }
    }

    /// That it is refused.
    #[must_use]
    pub fn refuses(reason: Reason, message: String) -> Self {
        Self {
            refused: true,
            ..Self::waits(reason, message)
        }
    }

    /// True if it says why the gang waits as another does, whatever the numbers.
    #[must_use]
    pub fn has_reason_of(&self, other: &Self) -> bool {
        (self.reason, self.refused) == (other.reason, other.refused)
    }
}
