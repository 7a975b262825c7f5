//! JobPolicies and ClusterJobPolicies: loads them into the set that decides, and writes what has
//! become of each.

mod load;
mod status;
#[cfg(test)]
mod tests;

pub use load::keep_policies;
pub use status::keep_policy_status;
pub(crate) use status::{problems, shown};
