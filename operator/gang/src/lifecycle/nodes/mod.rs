//! Nodes that are lost, unhealthy or excluded from the next attempts.

pub(super) mod bad;
pub(super) mod excluded;
pub(super) mod unhealthy;
