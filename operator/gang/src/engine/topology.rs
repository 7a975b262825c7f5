//! Converts topologies and topology requests into the engine's form.

use trellis_api::topology::{self, TopologySpec};
use trellis_scheduler::{Topology, TopologyLevel, TopologyName, TopologyRequest};

/// Returns the engine's form of a topology.
#[must_use]
pub fn to_engine_topology(name: &str, spec: &TopologySpec) -> Topology {
    Topology {
        name: TopologyName::new(name),
        levels: spec.levels.iter().map(to_topology_level).collect(),
    }
}

fn to_topology_level(level: &topology::TopologyLevel) -> TopologyLevel {
    TopologyLevel {
        name: level.name().to_owned(),
        node_label: level.node_label.clone(),
    }
}

/// Returns the engine's form of a topology request. None if it names no level, which validation
/// rejects.
pub(crate) fn to_topology_request(request: &topology::TopologyRequest) -> Option<TopologyRequest> {
    match (&request.required, &request.preferred) {
        (Some(level), preferred) => Some(TopologyRequest::Required {
            level: level.clone(),
            preferred: preferred.clone(),
        }),
        (None, Some(level)) => Some(TopologyRequest::preferred(level)),
        (None, None) => None,
    }
}
