//! May they? Decided over the compiled job: over the very pods that would be
//! created, not over the fields that they came from.
//!
//! [`authorize`] is the one door: only it makes an [`AuthorizedJob`], and
//! nothing is applied, reserved or queued that is not one. Behind it stands a
//! fixed set of rules ([`Rule`]), with default deny for privileges.

mod authorize;
mod denial;
mod pod_security;
mod privilege;
mod selector;
mod starter;

pub use authorize::{AuthorizedJob, Facts, authorize};
pub use denial::{Denial, Refusal, Rule};
pub use pod_security::privileges;
pub use privilege::Privilege;
pub use selector::selects;
