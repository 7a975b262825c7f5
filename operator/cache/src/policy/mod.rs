//! The policies of the cluster: the set in force, how recent it is, and whether the admission
//! policies that it relies on are in force.

mod active;
mod freshness;
pub mod guards;
mod pending;
mod requester;
mod stamping;
mod violations;

pub use active::PolicySet;
pub use active::object_key;
pub use freshness::{Freshness, keep_policies_fresh};
pub use guards::{Guard, Guards};
pub use pending::{Pending, Scope};
pub use requester::{requester, requester_of};
pub use stamping::{Since, Stamping};
pub use violations::{Told, Violations};
