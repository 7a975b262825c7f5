//! The objects that a job owns: how Trellis creates, corrects and deletes them.

pub(super) mod cleanup;
pub(super) mod drift;
pub(super) mod ephemeral_claims;
pub(super) mod journal;
pub(super) mod name_conflicts;
pub(super) mod orphans;
