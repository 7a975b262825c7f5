//! Policies that people write.

mod document;
mod enforcement;
mod eviction;
mod failures;
mod format;
mod hostile_names;
mod invalid_policies;
mod job;
mod namespaced_policies;
mod node_orders;
mod parts;
mod policy_set;
mod remote_secrets;
mod requester;
mod schema;
pub mod starter;
pub mod support;
