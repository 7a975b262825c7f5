//! The clusters and gangs of the measurements.

use std::collections::BTreeMap;

use trellis_scheduler::{
    Constraints, Engine, Gang, GangId, GroupName, Node, NodeName, NodeSelectorOperator,
    NodeSelectorRequirement, NodeSelectorTerm, PodKey, Queue, QueueName, Resources, TaskGroup,
    Time, Topology, TopologyLevel, TopologyName,
};

/// A cluster of nodes of 8 GPUs, 96 cores and 1 TiB, with 8 nodes in a rack.
pub(crate) struct Fleet {
    nodes: usize,
    /// The number of nodes in a block.
    block: usize,
}

impl Fleet {
    /// Returns a cluster of this many nodes, with 16 racks in a block.
    pub(crate) fn with_nodes(nodes: usize) -> Self {
        Self { nodes, block: 128 }
    }

    /// Sets the number of nodes in a block.
    pub(crate) fn with_block_size(self, block: usize) -> Self {
        Self { block, ..self }
    }

    pub(crate) fn engine(&self) -> Engine {
        let mut engine = Engine::new();
        for i in 0..self.nodes {
            engine.apply_node(Node {
                name: NodeName::new(node_name(i)),
                labels: BTreeMap::from([
                    ("rack".to_owned(), format!("r{}", i / 8)),
                    ("block".to_owned(), format!("b{}", i / self.block)),
                ]),
                taints: vec![],
                allocatable: Resources::new()
                    .with("cpu", 96_000)
                    .with("memory", 1 << 40)
                    .with("pods", 110)
                    .with("nvidia.com/gpu", 8),
                ready: true,
                unschedulable: false,
                unhealthy: None,
            });
        }
        engine.apply_topology(Topology {
            name: TopologyName::new("hall"),
            levels: vec![
                TopologyLevel::from_label("block"),
                TopologyLevel::from_label("rack"),
            ],
        });
        engine.apply_queue(Queue::new(QueueName::new("default")));
        engine
    }
}

fn node_name(i: usize) -> String {
    format!("gpu-{i:06}")
}

/// Returns a gang of identical pods. `not_in` is a rack that it avoids, so that its constraints are
/// distinct.
pub(crate) fn gang(id: &str, count: u32, gpus: i64, not_in: Option<&str>) -> Gang {
    let mut constraints = Constraints::default();
    if let Some(rack) = not_in {
        constraints.required = vec![NodeSelectorTerm {
            match_expressions: vec![NodeSelectorRequirement {
                key: "rack".to_owned(),
                operator: NodeSelectorOperator::NotIn,
                values: vec![rack.to_owned()],
            }],
            match_fields: vec![],
        }];
    }
    let request = Resources::new()
        .with("cpu", 8_000)
        .with("memory", 1 << 35)
        .with("nvidia.com/gpu", gpus);
    let prefix = format!("{}-worker", id.split('/').next_back().unwrap_or(id));
    let group = TaskGroup {
        constraints,
        ..TaskGroup::new(GroupName::new("worker"), count, request, prefix)
    };
    Gang::new(GangId::new(id), QueueName::new("default"), vec![group])
}

/// Returns an external pod with one GPU.
pub(crate) fn pod(i: usize, nodes: usize) -> (PodKey, NodeName, Resources) {
    (
        PodKey::new(format!("other/pod-{i}")),
        NodeName::new(node_name(i % nodes)),
        Resources::new()
            .with("cpu", 4_000)
            .with("memory", 1 << 34)
            .with("nvidia.com/gpu", 1),
    )
}

pub(crate) fn now(i: usize) -> Time {
    Time::from_millis(i64::try_from(i).unwrap_or(0))
}
