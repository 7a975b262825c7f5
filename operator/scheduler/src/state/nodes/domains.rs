//! Where nodes stand in the topologies.

use super::Nodes;
use crate::ids::TopologyName;
use crate::state::Domains;
use crate::topology::Topology;

impl Nodes {
    /// Takes a topology as it is now. Says whether anything changed.
    pub(crate) fn apply_topology(&mut self, topology: Topology) -> bool {
        let present = self.by_name.iter().filter_map(|(name, at)| {
            let facts = self.entries.get(at.at())?.facts.as_ref()?;
            Some((*at, name, &facts.labels))
        });
        self.domains.apply(topology, present)
    }

    /// Says whether the topology was there.
    pub(crate) fn delete_topology(&mut self, name: &TopologyName) -> bool {
        self.domains.delete(name)
    }

    /// The topologies, as of when [`Nodes::rank`] was last called.
    pub(crate) fn domains(&self) -> &Domains {
        &self.domains
    }
}
