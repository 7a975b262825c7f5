//! The place of nodes in topologies.

use std::collections::BTreeMap;

use super::Nodes;
use crate::ids::{NodeName, TopologyName};
use crate::state::TopologyDomains;
use crate::topology::Topology;

impl Nodes {
    /// Adds or replaces a topology. Returns true if it changes anything.
    pub(crate) fn apply_topology(&mut self, topology: Topology) -> bool {
        let present = self.by_name.iter().filter_map(|(name, at)| {
            let facts = self.entries.get(at.at())?.properties.as_ref()?;
            Some((*at, name, &facts.labels))
        });
        self.domains.apply(topology, present)
    }

    /// Removes a topology. Returns true if it existed.
    pub(crate) fn delete_topology(&mut self, name: &TopologyName) -> bool {
        self.domains.delete(name)
    }

    /// Returns the labels that identify a node's domain of a level. None: no topology has the
    /// level, or the node is in no domain of it.
    pub(crate) fn domain_labels(
        &self,
        level: &str,
        node: &NodeName,
    ) -> Option<BTreeMap<String, String>> {
        let at = self.by_name.get(node)?;
        let labels = &self.entries.get(at.at())?.properties.as_ref()?.labels;
        let keys = self.domains.level_labels(level);
        if keys.is_empty() {
            return None;
        }
        let label = |key: String| {
            let value = labels.get(&key)?.to_string();
            Some((key, value))
        };
        keys.into_iter().map(label).collect()
    }

    /// Returns the topologies, as of the last call of [`Nodes::rank_by_name`].
    pub(crate) fn domains(&self) -> &TopologyDomains {
        &self.domains
    }
}
