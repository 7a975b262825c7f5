//! Simulated nodes: how many, with what, and what becomes of them.

mod node_set;
mod node_template;

pub use node_set::NodeSet;
pub use node_template::NodeTemplate;

/// The label that names a node's rack.
pub const RACK_LABEL: &str = "trellis.dev/rack";

/// The label, and with [`NodeTemplate::scope_taint`] the taint, that says which test a node belongs
/// to.
pub const SCOPE_LABEL: &str = "test.trellis.dev/scope";
