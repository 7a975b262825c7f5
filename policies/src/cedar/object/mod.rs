//! One policy object: its text, the bounds on the text, and the policies that it becomes.

pub(crate) mod bounds;
pub(crate) mod compile;
mod format;
mod lint;
pub(crate) mod policy_cost;
mod policy_object;
mod unknown_requester;

pub use format::format;
pub use policy_cost::{MAX_NAMESPACE_OBJECTS, MAX_NAMESPACE_POLICIES, MAX_NAMESPACE_STEPS};
pub use policy_object::{ObjectKey, PolicyObject};
