//! Simulated nodes: their creation and their faults.

mod node_set;
mod node_template;

pub use node_set::NodeSet;
pub use node_template::NodeTemplate;

/// The label that names a node's rack.
pub const RACK_LABEL: &str = "trellis.dev/rack";

/// The label that names the test of a node. [`NodeTemplate::scope_taint`] also sets it as a taint.
pub const SCOPE_LABEL: &str = "test.trellis.dev/scope";
