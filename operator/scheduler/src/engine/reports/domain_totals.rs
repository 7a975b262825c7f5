//! The free domains of topologies.

use super::super::Engine;
use crate::ids::TopologyName;
use crate::state::NodeIdx;
use crate::topology::NODE_LEVEL;

/// The domains of one level that have devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainTotals {
    /// The topology.
    pub topology: TopologyName,
    /// The level, by its name.
    pub level: String,
    /// Domains whose nodes with devices all accept pods, run no gang, and have all devices free.
    pub free: usize,
    /// The other domains.
    pub used: usize,
}

/// The state of a node's devices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeUse {
    NoDevices,
    Free,
    Used,
}

impl Engine {
    /// Returns the free domains by topology and level. It visits every node once per topology.
    pub fn domain_totals(&mut self) -> Vec<DomainTotals> {
        self.nodes.rank_by_name();
        let mut totals = Vec::new();
        for (name, levels, layout) in self.nodes.domains().layouts() {
            let nodes = layout.nodes().iter();
            let uses: Vec<NodeUse> = nodes.map(|node| self.node_use(*node)).collect();
            for (depth, level) in levels.iter().enumerate() {
                if level.name == NODE_LEVEL {
                    continue;
                }
                let mut total = DomainTotals {
                    topology: name.clone(),
                    level: level.name.clone(),
                    free: 0,
                    used: 0,
                };
                for domain in layout.domains(depth) {
                    let uses = uses.get(domain).unwrap_or(&[]);
                    if uses.contains(&NodeUse::Used) {
                        total.used = total.used.saturating_add(1);
                    } else if uses.contains(&NodeUse::Free) {
                        total.free = total.free.saturating_add(1);
                    }
                }
                totals.push(total);
            }
        }
        totals
    }

    fn node_use(&self, node: NodeIdx) -> NodeUse {
        let has = |device| self.nodes.allocatable(device, node) > 0;
        let mut devices = self.nodes.devices().iter().filter(|device| has(**device));
        let Some(facts) = self.nodes.properties(node) else {
            return NodeUse::NoDevices;
        };
        if devices.clone().next().is_none() {
            return NodeUse::NoDevices;
        }
        let accepts_pods = facts.ready && !facts.unschedulable && facts.unhealthy.is_none();
        let (gang_pods, _) = self.nodes.usage(self.catalog.pods(), node);
        let is_free = |device| self.nodes.usage(device, node) == (0, 0);
        match accepts_pods && gang_pods == 0 && devices.all(|device| is_free(*device)) {
            true => NodeUse::Free,
            false => NodeUse::Used,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::Engine;
    use crate::ids::{GangId, GroupName, NodeName, QueueName};
    use crate::{
        Gang, Node, PodKey, Queue, Resources, TaskGroup, Time, Topology, TopologyLevel,
        TopologyName,
    };

    fn totals(engine: &mut Engine) -> Vec<(String, usize, usize)> {
        engine.cycle(Time::from_millis(0));
        let totals = engine.domain_totals().into_iter();
        totals.map(|t| (t.level, t.free, t.used)).collect()
    }

    #[test]
    fn domain_is_free_while_its_nodes_with_devices_run_nothing() {
        let mut engine = Engine::new();
        engine.apply_queue(Queue::new(QueueName::new("q")));
        engine.apply_topology(Topology {
            name: TopologyName::new("hall"),
            levels: ["block", "rack"].map(TopologyLevel::from_label).to_vec(),
        });
        let node = |name: &str, gpus| {
            let has = Resources::new()
                .with("cpu", 96_000)
                .with("gpu.example/gpu", gpus);
            let mut node = Node::new(NodeName::new(name), has.with("pods", 110));
            node.labels.insert("block".to_owned(), "b".to_owned());
            node.labels.insert("rack".to_owned(), name[..2].to_owned());
            node
        };
        for (name, gpus) in [
            ("r1-a", 8),
            ("r1-b", 0),
            ("r2-a", 8),
            ("r2-b", 8),
            ("r3-a", 0),
        ] {
            engine.apply_node(node(name, gpus));
        }
        let of = |block: (usize, usize), rack: (usize, usize)| {
            vec![
                ("block".to_owned(), block.0, block.1),
                ("rack".to_owned(), rack.0, rack.1),
            ]
        };
        assert_eq!(
            totals(&mut engine),
            of((1, 0), (2, 0)),
            "rack 3 has no devices"
        );
        // Pods of DaemonSets use cores, but no devices.
        let cores = Resources::new().with("cpu", 1_000);
        let daemon = PodKey::new("x/daemon");
        engine.apply_pod(daemon, NodeName::new("r2-a"), cores.clone());
        assert_eq!(totals(&mut engine), of((1, 0), (2, 0)));
        let gpu = Resources::new().with("gpu.example/gpu", 1);
        engine.apply_pod(PodKey::new("x/gpu"), NodeName::new("r2-a"), gpu);
        assert_eq!(totals(&mut engine), of((0, 1), (1, 1)));
        engine.delete_pod(&PodKey::new("x/gpu"));
        // A gang without GPUs uses the plain nodes first, and then a node with GPUs.
        let mut submit = |name: &str, pods| {
            let request = Resources::new().with("cpu", 96_000);
            let group = TaskGroup::new(GroupName::new("w"), pods, request, name.to_owned());
            engine.apply_gang(Gang::new(
                GangId::new(name),
                QueueName::new("q"),
                vec![group],
            ));
            totals(&mut engine)
        };
        assert_eq!(submit("ns/plain", 2), of((1, 0), (2, 0)));
        assert_eq!(submit("ns/more", 1), of((0, 1), (1, 1)));
        let mut broken = node("r2-b", 8);
        broken.ready = false;
        engine.apply_node(broken);
        assert_eq!(totals(&mut engine), of((0, 1), (0, 2)));
    }
}
