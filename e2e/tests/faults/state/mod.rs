//! Damaged or outdated state: backups, rollbacks, objects that do not decode.

pub(super) mod backup;
pub(super) mod operator_rollback;
pub(super) mod undecodable_jobs;
