//! May they? Decided over the compiled job: over the very pods that would be
//! created, not over the fields that they came from.
//!
//! Nothing is applied, reserved or queued that is not an [`AuthorizedJob`], and
//! two doors alone make one. Behind [`authorize`] stands a fixed set of rules
//! ([`Rule`]), with default deny for privileges: it is the one that the operator
//! goes through. Behind [`cedar::authorize_by`] stand the policies that people
//! write.

mod authorize;
pub mod cedar;
mod denial;
mod pod_security;
mod privilege;
mod selector;
mod starter;

pub use authorize::{AuthorizedJob, Facts, authorize};
pub use denial::{By, Denial, Refusal, Rule};
pub use pod_security::privileges;
pub use privilege::Privilege;
pub use selector::selects;
