//! Authorization of compiled jobs. Policies decide on the final pods, not on the fields that they
//! came from.
//!
//! The operator applies, reserves and queues only an [`AuthorizedJob`]. Only [`cedar::authorize`]
//! makes one: it applies the users' policies, and the few rules ([`Rule`]) that no policy can
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
