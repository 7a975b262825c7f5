//! The ring over the ranks of a gang, and how often it leaves the domains of a topology.

mod least_crossings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ids::NodeName;
use crate::placement::{GangTopology, ResolvedRequest};
use crate::state::{DomainLevel, LabelTexts, Layout, NodeIdx, NodeLabels, TopologyDomains};
use crate::topology::{SliceLayer, Topology, TopologyRequest};
use least_crossings::least_crossings;

/// The pods of a gang in the order of their ranks. After the last pod comes the first one again.
#[derive(Clone, Debug, Default)]
pub struct RankRing {
    /// The topology request of the gang.
    pub topology: Option<TopologyRequest>,
    /// The task groups, in the order of their ranks.
    pub groups: Vec<RingGroup>,
}

/// The pods of one task group in a ring.
#[derive(Clone, Debug, Default)]
pub struct RingGroup {
    /// The topology request of the group.
    pub topology: Option<TopologyRequest>,
    /// The slices of the group, coarse to fine.
    pub slices: Vec<SliceLayer>,
    /// The node of each pod, in the order of the ranks. Pods that follow each other on one node
    /// may be one entry.
    pub nodes: Vec<NodeName>,
}

/// A ring at one level of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingLevel {
    /// The name of the level.
    pub level: String,
    /// The number of domains that the pods are in.
    pub domains: usize,
    /// The number of neighbours in different domains. The last pod is a neighbour of the first.
    pub crossings: usize,
    /// The fewest crossings of any order of the same pods on the same nodes, as far as the pods of
    /// a group stay together and the groups keep their order.
    pub least_crossings: usize,
}

impl RankRing {
    /// Measures the ring at the levels of the topology by which the gang is ordered, coarse to
    /// fine: the one of the first request in the order of the ranks, or else the one with the most
    /// levels in which all nodes are in domains. Levels in which a node is in no domain are left
    /// out. `labels` returns the labels with these keys of a node.
    #[must_use]
    pub fn levels(
        &self,
        topologies: &[Topology],
        labels: impl Fn(&NodeName, &BTreeSet<&str>) -> BTreeMap<String, String>,
    ) -> Vec<RingLevel> {
        let nodes = self.number_nodes(topologies, labels);
        let mut domains = TopologyDomains::default();
        for topology in topologies {
            let labels = nodes
                .iter()
                .map(|(name, (at, labels))| (*at, *name, labels));
            domains.apply(topology.clone(), labels);
        }
        domains.lay_out();
        let all_nodes = || nodes.values().map(|(at, _)| *at);
        let requested = self.find_requested(&domains);
        let layout = requested.or_else(|| domains.find_covering(all_nodes));
        let Some(layout) = layout.filter(|_| !nodes.is_empty()) else {
            return Vec::new();
        };
        let groups = self.groups.iter().filter(|group| !group.nodes.is_empty());
        let groups: Vec<_> = groups.collect();
        let level = |depth: usize| {
            let domain = |name: &NodeName| layout.domain(depth, nodes.get(name)?.0);
            let in_group = |group: &&RingGroup| group.nodes.iter().map(domain).collect();
            let ring: Vec<Vec<u32>> = groups.iter().map(in_group).collect::<Option<_>>()?;
            let layout = Arc::clone(&layout);
            let name = domains.level_name(&DomainLevel { layout, depth });
            Some(measure(name, &ring))
        };
        (0..layout.depths()).map_while(level).collect()
    }

    /// Numbers the nodes of the pods, and reads the labels of the topologies.
    fn number_nodes(
        &self,
        topologies: &[Topology],
        labels: impl Fn(&NodeName, &BTreeSet<&str>) -> BTreeMap<String, String>,
    ) -> BTreeMap<&NodeName, (NodeIdx, NodeLabels)> {
        let levels = topologies.iter().flat_map(|topology| &topology.levels);
        let keys: BTreeSet<&str> = levels.map(|level| level.node_label.as_str()).collect();
        let names: BTreeSet<&NodeName> =
            self.groups.iter().flat_map(|group| &group.nodes).collect();
        let mut texts = LabelTexts::default();
        let names = names.into_iter().enumerate();
        let numbered = names.map(|(at, name)| {
            let labels = texts.intern_labels(labels(name, &keys));
            (name, (NodeIdx::of(at), labels))
        });
        numbered.collect()
    }

    /// Returns the topology of the first request by which the pods of a group are numbered.
    fn find_requested(&self, domains: &TopologyDomains) -> Option<Arc<Layout>> {
        let gang = self.topology.as_ref();
        let own = |group: &RingGroup| {
            let requests = (gang, group.topology.as_ref());
            let own = ResolvedRequest::find_for_group(domains, requests, (&group.slices, false));
            own.ok().flatten()
        };
        let requests = GangTopology {
            gang: gang.and_then(|request| ResolvedRequest::find(domains, request).ok()),
            groups: self.groups.iter().map(own).collect(),
        };
        let mut groups = (0..).zip(&self.groups);
        let first = groups.find_map(|(at, group)| {
            let request = requests.numbering_request(at)?;
            (!group.nodes.is_empty()).then_some(request)
        });
        first.map(|request| Arc::clone(&request.level.layout))
    }
}

/// Measures a ring, given by the domains of the pods of each group. No group is empty.
fn measure(level: String, groups: &[Vec<u32>]) -> RingLevel {
    let pods = || groups.iter().flatten();
    let neighbours = pods().zip(pods().cycle().skip(1));
    let sets: Vec<BTreeSet<u32>> = groups.iter().map(|g| g.iter().copied().collect()).collect();
    RingLevel {
        level,
        domains: pods().collect::<BTreeSet<_>>().len(),
        crossings: neighbours.filter(|(one, next)| one != next).count(),
        least_crossings: least_crossings(&sets),
    }
}

#[cfg(test)]
mod tests;
