//! Judges from a history of objects whether Trellis keeps its promises about gangs.
//!
//! The crate knows Kubernetes and the API types of Trellis, and nothing of the operator: a fault of
//! the operator cannot hide itself here. A source gives a [`Verifier`] the objects at the start,
//! then each [`Change`] in the order of revisions, and the times at which the cluster was healthy.
//! The verifier does no I/O. Each rule is one file of `rules`. [`ClusterWatch`] is the source for a
//! real cluster, and [`AuditJudge`] for the audit log of an API server.

mod audit;
mod audit_event;
mod clock;
mod cluster;
#[allow(
    clippy::disallowed_methods,
    reason = "the one part that reads the clock; a simulation passes the time"
)]
mod cluster_watch;
mod field_managers;
mod finding;
mod history;
mod journal;
mod judged_kinds;
mod known_objects;
mod nodes;
mod pods;
mod quota;
mod resources;
mod rules;
mod slim;
mod terms;
#[cfg(test)]
mod tests;
mod verifier;

pub use audit::{AuditFailure, AuditJudge};
pub use audit_event::{AuditEvent, AuditedObject, AuditedStatus, AuditedUser, is_removal};
pub use clock::Health;
pub use cluster_watch::{ClusterWatch, WatchFailure};
pub use finding::{Finding, ObjectRef, Rule};
pub use history::{Change, ObjectName, ObjectVersion, UnreadObject, Version};
pub use judged_kinds::WATCHED_KINDS;
pub use verifier::{ObjectCounts, Verifier};
