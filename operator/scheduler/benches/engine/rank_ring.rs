//! The ring over the ranks of a gang of whole nodes, as the status of its job shows it.

use std::collections::{BTreeMap, BTreeSet};

use trellis_scheduler::{NodeName, RankRing, RingGroup, Topology, TopologyLevel, TopologyName};

use crate::row::Row;
use crate::timing::{self, time_runs};

pub(crate) fn print_rank_ring(print: &impl Fn(Row)) {
    let topology = Topology {
        name: TopologyName::new("network"),
        levels: ["block", "rack"].map(TopologyLevel::from_label).into(),
    };
    for nodes in [64, 1_024] {
        let names = (0..nodes).map(|i: usize| NodeName::new(format!("{i:05}").as_str()));
        let ring = RankRing {
            topology: None,
            groups: vec![RingGroup {
                nodes: names.collect(),
                ..RingGroup::default()
            }],
        };
        // Racks of 10 nodes, in blocks of 10 racks.
        let labels = |node: &NodeName, _: &BTreeSet<&str>| -> BTreeMap<String, String> {
            let label = |key: &str, digits: usize| (key.to_owned(), node.as_str()[..digits].into());
            [label("block", 3), label("rack", 4)].into()
        };
        let took = time_runs(300, |_| {
            let topologies = std::slice::from_ref(&topology);
            let (took, levels) = timing::time_run(|| ring.levels(topologies, labels));
            assert_eq!(levels.len(), 2, "{levels:?}");
            took
        });
        let name = format!("measure the ring over {nodes} nodes");
        print(Row::new(name, took.median));
    }
}
