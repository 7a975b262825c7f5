//! Topologies: which nodes are close to each other.

use serde::{Deserialize, Serialize};

use crate::ids::TopologyName;

/// A tree of domains, from labels of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Its name.
    pub name: TopologyName,
    /// Keys of node labels, coarse to fine. The domain of a node at a level is
    /// told by its labels of that level and of all above it.
    pub levels: Vec<String>,
}

/// The level at which each node is a domain of its own, known by its name. No key of a label has
/// parentheses.
pub(crate) const NODE_LEVEL: &str = "(node)";

impl Topology {
    /// The one with that level alone.
    pub(crate) fn of_nodes() -> Self {
        Self {
            name: TopologyName::new(NODE_LEVEL),
            levels: vec![NODE_LEVEL.to_owned()],
        }
    }
}

/// How close pods are to be to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TopologyRequest {
    /// The level: the key of a node label that a topology names.
    pub level: String,
    /// Whether it must be so.
    pub mode: TopologyMode,
}

impl TopologyRequest {
    /// All pods are on one node, or are not placed.
    #[must_use]
    pub fn one_node() -> Self {
        Self {
            level: NODE_LEVEL.to_owned(),
            mode: TopologyMode::Required,
        }
    }

    pub(crate) fn is_of_nodes(&self) -> bool {
        self.level == NODE_LEVEL
    }
}

/// Whether closeness is a must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TopologyMode {
    /// All pods are in one domain of the level, or are not placed.
    Required,
    /// As few domains of the level as can be.
    Preferred,
}
