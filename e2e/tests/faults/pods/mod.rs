//! Pods and claims that fail or disappear.

pub(super) mod avoided_node;
pub(super) mod claims;
pub(super) mod mass_failure;
pub(super) mod surplus;
