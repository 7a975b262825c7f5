//! JobPolicies and ClusterJobPolicies: loads them into the active set, and writes their status.

mod loading;
mod status;
#[cfg(test)]
mod tests;

pub use loading::maintain_policies;
pub use status::maintain_policy_status;
pub use status::{format_problems, truncate_message};
