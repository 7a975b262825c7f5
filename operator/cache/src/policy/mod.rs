//! The policies of the cluster: the set in force, its age, and the state of the admission policies
//! that it relies on.

mod freshness;
pub mod guards;
mod pending_changes;
mod policy_set;
mod requester;
mod stamping;
mod violations;

pub use freshness::{Freshness, keep_policies_fresh};
pub use guards::{Guard, Guards};
pub use pending_changes::{PendingChanges, PolicyScope};
pub use policy_set::PolicySet;
pub use policy_set::object_key;
pub use requester::{requester_from_user, stamp_for_user, stamped_requester};
pub use stamping::{AuthenticSince, STAMP_PATH, Stamping};
pub use violations::{JobViolations, ObjectViolations};
