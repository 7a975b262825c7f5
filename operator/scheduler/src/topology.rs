//! Topologies describe which nodes are close to each other.

use serde::{Deserialize, Serialize};

use crate::ids::TopologyName;

/// A tree of domains, which the labels of nodes define.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Its name.
    pub name: TopologyName,
    /// Its levels, coarse to fine. The labels of a node at a level and at all levels above it
    /// define the domain of the node at that level.
    pub levels: Vec<TopologyLevel>,
}

/// A level of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyLevel {
    /// The name that gangs use in requests.
    pub name: String,
    /// The key of the node label whose values are its domains.
    pub node_label: String,
}

impl TopologyLevel {
    /// Returns the level of a node label, with the same name.
    #[must_use]
    pub fn from_label(key: &str) -> Self {
        Self {
            name: key.to_owned(),
            node_label: key.to_owned(),
        }
    }
}

/// The level at which each node is a domain of its own. The node's name is the domain. No label key
/// has parentheses.
pub(crate) const NODE_LEVEL: &str = "(node)";

impl Topology {
    /// Returns the topology that has only [`NODE_LEVEL`].
    pub(crate) fn with_node_level() -> Self {
        Self {
            name: TopologyName::new(NODE_LEVEL),
            levels: vec![TopologyLevel::from_label(NODE_LEVEL)],
        }
    }
}

/// How close to each other pods must or should be, by the name of a level.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TopologyRequest {
    /// All pods are in one domain of a level, or the engine does not place them.
    Required {
        /// The level.
        level: String,
        /// Within that domain, the pods are in as few domains of this finer level as possible.
        preferred: Option<String>,
    },
    /// The pods are in as few domains of the level as possible.
    Preferred {
        /// The level.
        level: String,
    },
}

/// A requirement that splits a group into slices: each `pods` consecutive pods are in one domain of
/// the level. A domain may hold several slices. The number of pods of the group must be a multiple
/// of `pods`; otherwise the engine may refuse a gang that fits.
///
/// Kueue calls this `podset-slice-required-topology` (KEP-2724), and Slurm calls it `--segment`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SliceLayer {
    /// The level, by its name.
    pub level: String,
    /// The number of pods in one slice.
    pub pods: u32,
}

impl SliceLayer {
    /// Splits a group into slices of this many pods, each in one domain of the level.
    #[must_use]
    pub fn new(level: &str, pods: u32) -> Self {
        Self {
            level: level.to_owned(),
            pods,
        }
    }
}

impl TopologyRequest {
    /// Requests one domain of the level for all pods.
    #[must_use]
    pub fn required(level: &str) -> Self {
        Self::Required {
            level: level.to_owned(),
            preferred: None,
        }
    }

    /// Requests as few domains of the level as possible for the pods.
    #[must_use]
    pub fn preferred(level: &str) -> Self {
        Self::Preferred {
            level: level.to_owned(),
        }
    }

    /// Requests one domain of a level for all pods and, within it, as few domains of a finer level
    /// as possible.
    #[must_use]
    pub fn required_and_preferred(required: &str, preferred: &str) -> Self {
        Self::Required {
            level: required.to_owned(),
            preferred: Some(preferred.to_owned()),
        }
    }

    /// Requests one node for all pods.
    #[must_use]
    pub fn one_node() -> Self {
        Self::required(NODE_LEVEL)
    }

    pub(crate) fn is_node_level(&self) -> bool {
        self.required_level() == Some(NODE_LEVEL)
    }

    /// Returns the required level, or else the preferred one.
    pub(crate) fn level(&self) -> &str {
        match self {
            Self::Required { level, .. } | Self::Preferred { level } => level,
        }
    }

    /// Returns the level in which all pods must be in one domain.
    #[must_use]
    pub fn required_level(&self) -> Option<&str> {
        match self {
            Self::Required { level, .. } => Some(level),
            Self::Preferred { .. } => None,
        }
    }

    /// Returns the level in which the pods should be in few domains.
    #[must_use]
    pub fn preferred_level(&self) -> Option<&str> {
        match self {
            Self::Required { preferred, .. } => preferred.as_deref(),
            Self::Preferred { level } => Some(level),
        }
    }
}
