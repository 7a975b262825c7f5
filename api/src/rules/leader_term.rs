//! Rules of LeaderTerms.

use super::Rule;

/// The epoch of a LeaderTerm rises with every change.
pub const TERM_EPOCH_RISES: Rule = Rule::new(
    "self.spec.epoch > oldSelf.spec.epoch || self.spec == oldSelf.spec",
    "rises with every change of the term: the writer no longer leads",
)
.for_field(".spec.epoch");
