//! May they? Decided over the compiled job: over the very pods that would be
//! created, not over the fields that they came from.
//!
//! Nothing is applied, reserved or queued that is not an [`AuthorizedJob`], and
//! one door alone makes one: [`cedar::authorize`], behind which stand the
//! policies that people write, and the few rules ([`Rule`]) that no policy can
//! change.

mod authorize;
pub mod cedar;
mod denial;
mod pod_security;
mod privilege;
pub mod quota;
mod selector;

pub use authorize::{AuthorizedJob, Facts};
pub use denial::{By, Denial, Refusal, Rule};
pub use pod_security::{Unlisted, asked, privileges, unlisted};
pub use privilege::Privilege;
pub use selector::selects;
