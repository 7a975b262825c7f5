//! Simulated nodes: how many, with what, and what becomes of them.

mod builder;
mod set;

pub use builder::Nodes;
pub use set::NodeSet;

/// The label that names a node's rack.
pub const RACK_LABEL: &str = "trellis.dev/rack";

/// The label, and with [`Nodes::scope_taint`] the taint, that says which test a node belongs to.
pub const SCOPE: &str = "test.trellis.dev/scope";
