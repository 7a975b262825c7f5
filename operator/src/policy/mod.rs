//! Policies on a cluster: the objects become the set that decides, and are told
//! what has become of them.

mod active;
mod freshness;
pub(crate) mod guards;
mod load;
mod pending;
mod requester;
mod stamping;
pub(crate) mod starter;
mod status;
#[cfg(test)]
mod tests;
mod turns;
mod violations;

pub use active::PolicySet;
pub(crate) use active::object_key;
pub use freshness::{Freshness, keep_policies_fresh};
pub use guards::{Guard, Guards};
pub use load::keep_policies;
pub use requester::{requester, requester_of};
pub use stamping::{Since, Stamping};
pub use status::keep_policy_status;
pub(crate) use status::{problems, shown};
pub use turns::Turns;
pub(crate) use turns::share;
pub use violations::Violations;
