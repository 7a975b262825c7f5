//! Converts topologies and topology requests into the engine's form.

use trellis_api::topology::{self, Closeness, SlicePolicy, TopologySpec};
use trellis_scheduler::{SliceLayer, Topology, TopologyLevel, TopologyName, TopologyRequest};

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

/// Returns the engine's form of the topology request of a job, a task group or a PodGroup, apart
/// from its slices. None: it names no level.
pub(crate) fn to_level_request(request: &Closeness) -> Option<TopologyRequest> {
    match (&request.required, &request.preferred) {
        (Some(level), preferred) => Some(TopologyRequest::Required {
            level: level.clone(),
            preferred: preferred.clone(),
        }),
        (None, Some(level)) => Some(TopologyRequest::preferred(level)),
        (None, None) => None,
    }
}

/// Returns the slices of this many pods.
pub(crate) fn to_slices(request: &Closeness, pods: u32) -> Vec<SliceLayer> {
    let layers = request.slices.iter().zip(request.slice_sizes(pods));
    let layer = |(layer, pods): (&topology::SliceLayer, u32)| SliceLayer::new(&layer.level, pods);
    layers.map(layer).collect()
}

/// Returns true if the slices are only a preference.
pub(crate) fn prefers_slices(request: &Closeness) -> bool {
    request.slice_policy == Some(SlicePolicy::Preferred)
}
