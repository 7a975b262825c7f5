//! Why a gang waits or is refused.

pub mod job_hold;
pub(super) mod unplaceable_job;

use trellis_api::Reason;

/// Explanation for a gang that is not placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangExplanation {
    /// Why it waits.
    pub reason: Reason,
    /// The reason in words, with numbers.
    pub message: String,
    /// True if the gang is refused, false if it waits.
    pub refused: bool,
    /// True if only the numbers differ from the previous explanation. The new numbers alone then
    /// justify a write.
    pub only_numbers_changed: bool,
}

impl GangExplanation {
    /// Returns the explanation for a gang that waits.
    #[must_use]
    pub fn waiting(reason: Reason, message: String) -> Self {
        Self {
            reason,
            message,
            refused: false,
            only_numbers_changed: false,
        }
    }

    /// Returns the explanation for a gang that is refused.
    #[must_use]
    pub fn refused(reason: Reason, message: String) -> Self {
        Self {
            refused: true,
            ..Self::waiting(reason, message)
        }
    }

    /// Returns true if both explanations have the same reason, even with different numbers.
    #[must_use]
    pub fn has_same_reason(&self, other: &Self) -> bool {
        (self.reason, self.refused) == (other.reason, other.refused)
    }
}
