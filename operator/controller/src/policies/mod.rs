//! JobPolicies and ClusterJobPolicies: loads them into the active set, and writes their status.

mod load;
mod status;
#[cfg(test)]
mod tests;

pub use load::keep_policies;
pub use status::keep_policy_status;
pub use status::{problems, shown};
