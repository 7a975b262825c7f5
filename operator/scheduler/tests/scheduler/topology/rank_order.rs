//! Tests of the order of ranks: the fewest neighbours in a ring are in different domains, at every
//! level.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::*;
use crate::topology::{topology, whole_node_gang};
use proptest::prelude::*;
use trellis_scheduler::{
    GroupName, Node, NodeName, Placement, RankRing, RingGroup, TopologyRequest,
};

fn node_in(name: &str, block: &str, rack: &str) -> Node {
    label(label(gpu_node(name, 8), "block", block), "rack", rack)
}

#[test]
fn ranks_follow_the_topology_whether_it_is_requested_or_not() {
    let mut engine = engine(
        [("n0", "2"), ("n1", "1"), ("n2", "2"), ("n3", "1")]
            .map(|(name, rack)| node_in(name, "a", rack)),
    );
    engine.apply_topology(topology("hall", &["block", "rack"]));
    for request in [Some(TopologyRequest::required("block")), None] {
        assert_eq!(
            trial_placement(&mut engine, &whole_node_gang(4, request)),
            "worker: n1*1 n3*1 n0*1 n2*1"
        );
    }
}

#[test]
fn ranks_follow_the_finest_topology_with_all_nodes() {
    let nodes = [
        ("n0", "2", "y"),
        ("n1", "1", "x"),
        ("n2", "2", "x"),
        ("n3", "1", "y"),
    ];
    let mut engine =
        engine(nodes.map(|(name, rack, feed)| label(node_in(name, "a", rack), "feed", feed)));
    let order = |engine: &mut _| trial_placement(engine, &whole_node_gang(4, None));
    engine.apply_topology(topology("a-power", &["feed"]));
    assert_eq!(order(&mut engine), "worker: n1*1 n2*1 n0*1 n3*1");
    engine.apply_topology(topology("b-hall", &["block", "rack"]));
    assert_eq!(order(&mut engine), "worker: n1*1 n3*1 n0*1 n2*1");
    // A node without a block leaves only the other topology.
    engine.apply_node(label(gpu_node("n0", 8), "feed", "y"));
    assert_eq!(order(&mut engine), "worker: n1*1 n2*1 n0*1 n3*1");
    engine.apply_node(gpu_node("n0", 8));
    assert_eq!(order(&mut engine), "worker: n0*1 n1*1 n2*1 n3*1", "by name");
}

#[test]
fn group_begins_in_the_domain_in_which_the_group_before_it_ends() {
    let nodes = [("n0", "1"), ("n1", "2"), ("n2", "2"), ("n3", "3")];
    let mut engine =
        engine(nodes.map(|(name, rack)| label(node_in(name, "a", rack), "name", name)));
    engine.apply_topology(topology("hall", &["block", "rack"]));
    let mut chief = group("chief", 1, gpu(8, 8));
    let on_n1 = BTreeMap::from([("name".to_owned(), "n1".to_owned())]);
    chief.constraints.narrow_to(&on_n1);
    let workers = group("worker", 3, gpu(8, 8));
    for groups in [vec![chief.clone(), workers.clone()], vec![workers, chief]] {
        let placement = trial_placement(&mut engine, &gang("g", groups));
        assert!(placement.contains("worker: n2*1 n0*1 n3*1"), "{placement}");
    }
}

/// The domains of a node, coarse to fine.
type Path = [u8; 2];

/// Returns how many neighbours in a ring are in different domains of a level.
fn crossings(ring: &[Path], level: usize) -> usize {
    let next = ring.iter().cycle().skip(1);
    ring.iter()
        .zip(next)
        .filter(|(a, b)| a[..=level] != b[..=level])
        .count()
}

/// Returns the fewest crossings of any order of the nodes.
fn fewest_crossings(nodes: &mut Vec<Path>, from: usize, level: usize) -> usize {
    if from == nodes.len() {
        return crossings(nodes, level);
    }
    let orders = from..nodes.len();
    let fewest = orders.map(|at| {
        nodes.swap(from, at);
        let fewest = fewest_crossings(nodes, from + 1, level);
        nodes.swap(from, at);
        fewest
    });
    fewest.min().unwrap()
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn no_order_of_the_ranks_crosses_fewer_domains(
        paths in prop::collection::vec((0..3_u8, 0..2_u8), 1..7),
    ) {
        let nodes = paths.iter().enumerate().map(|(at, (block, rack))| {
            node_in(&format!("n{at}"), &block.to_string(), &rack.to_string())
        });
        let mut engine = engine(nodes);
        engine.apply_topology(topology("hall", &["block", "rack"]));
        let gang = whole_node_gang(paths.len().try_into().unwrap(), None);
        let placement = engine.try_gang(&gang, ms(0)).unwrap().placement;
        let path = |name: &str| {
            let (block, rack) = paths[name[1..].parse::<usize>().unwrap()];
            [block, rack]
        };
        let ring: Vec<Path> = placement.iter().map(|(.., node)| path(node.as_str())).collect();
        for level in [0, 1] {
            let domains: BTreeSet<_> = ring.iter().map(|path| &path[..=level]).collect();
            let fewest = fewest_crossings(&mut ring.clone(), 0, level);
            prop_assert_eq!(crossings(&ring, level), fewest, "{:?}", ring);
            prop_assert_eq!(fewest, if domains.len() > 1 { domains.len() } else { 0 });
        }
    }

    #[test]
    fn no_order_of_workers_and_their_leader_crosses_fewer_domains(
        paths in prop::collection::vec((0..3_u8, 0..2_u8), 2..7),
        leads in any::<bool>(),
    ) {
        let nodes = paths.iter().enumerate().map(|(at, (block, rack))| {
            node_in(&format!("n{at}"), &block.to_string(), &rack.to_string())
        });
        let mut engine = engine(nodes);
        let hall = topology("hall", &["block", "rack"]);
        engine.apply_topology(hall.clone());
        let workers = u32::try_from(paths.len()).unwrap() - 1;
        let mut groups = vec![group("leader", 1, gpu(8, 8)), group("worker", workers, gpu(8, 8))];
        if !leads {
            groups.reverse();
        }
        let placement = engine.try_gang(&gang("g", groups), ms(0)).unwrap().placement;
        let labels = |node: &NodeName, _: &BTreeSet<&str>| {
            let (block, rack) = paths[node.as_str()[1..].parse::<usize>().unwrap()];
            let labels = [("block", block), ("rack", rack)];
            labels.map(|(key, value)| (key.to_owned(), value.to_string())).into()
        };
        let levels = ring_of(&placement).levels(&[hall], labels);
        prop_assert_eq!(levels.len(), 2);
        for level in levels {
            prop_assert_eq!(level.crossings, level.least_crossings, "{:?}", level);
        }
    }
}

/// Returns the ring with the leader first.
fn ring_of(placement: &Placement) -> RankRing {
    let group = |name: &str| RingGroup {
        nodes: placement
            .runs(&GroupName::new(name))
            .unwrap()
            .iter()
            .map(|(node, _)| node.clone())
            .collect(),
        ..RingGroup::default()
    };
    RankRing {
        topology: None,
        groups: vec![group("leader"), group("worker")],
    }
}
