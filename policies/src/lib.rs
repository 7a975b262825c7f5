//! Authorization of compiled jobs. Policies decide on the final pods, not on the fields that they
//! came from.
//!
//! The operator applies, reserves and queues only an [`AuthorizedJob`]. Only [`cedar::authorize`]
//! makes one: it applies the users' policies, and the few rules ([`FixedRule`]) that no policy can
//! change.

mod authorize;
pub mod cedar;
mod denial;
mod pod_security;
mod privilege;
pub mod quota;
mod selector;

pub use authorize::{AuthorizedJob, ClusterFacts};
pub use denial::{Denial, DenialSource, FixedRule, Refusal};
pub use pod_security::{UnlistedField, privileges, privileges_with_fields, unlisted_fields};
pub use privilege::Privilege;
pub use selector::selects;
