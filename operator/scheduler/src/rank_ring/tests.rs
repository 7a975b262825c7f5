use proptest::prelude::*;

use super::*;
use crate::ids::TopologyName;
use crate::topology::TopologyLevel;

fn topology(name: &str, labels: &[&str]) -> Topology {
    Topology {
        name: TopologyName::new(name),
        levels: labels
            .iter()
            .copied()
            .map(TopologyLevel::from_label)
            .collect(),
    }
}

fn group(nodes: &[&str]) -> RingGroup {
    RingGroup {
        nodes: nodes.iter().copied().map(NodeName::new).collect(),
        ..RingGroup::default()
    }
}

fn ring(groups: Vec<RingGroup>) -> RankRing {
    RankRing {
        groups,
        ..RankRing::default()
    }
}

/// A node is named after its block and its rack: `a1` is in rack 1 of block a. It has no feed.
fn labels(node: &NodeName, keys: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let labels = ["block", "rack", "host"]
        .into_iter()
        .zip(node.as_str().chars());
    let known = labels.filter(|(key, _)| keys.contains(key));
    known
        .map(|(key, value)| (key.to_owned(), value.to_string()))
        .collect()
}

fn rows(ring: &RankRing, topologies: &[Topology]) -> Vec<(String, usize, usize, usize)> {
    let levels = ring.levels(topologies, labels).into_iter();
    levels
        .map(|l| (l.level, l.domains, l.crossings, l.least_crossings))
        .collect()
}

fn row(
    level: &str,
    domains: usize,
    crossings: usize,
    least: usize,
) -> (String, usize, usize, usize) {
    (level.to_owned(), domains, crossings, least)
}

#[test]
fn ring_is_measured_at_each_level() {
    let hall = [topology("hall", &["block", "rack"])];
    let ordered = ring(vec![group(&["a1x", "a1y", "a2x", "b1x"])]);
    assert_eq!(
        rows(&ordered, &hall),
        [row("block", 2, 2, 2), row("rack", 3, 3, 3)]
    );
    let mixed = ring(vec![group(&["a1x", "b1x", "a1y", "a2x"])]);
    assert_eq!(
        rows(&mixed, &hall),
        [row("block", 2, 2, 2), row("rack", 3, 4, 3)]
    );
    let one = ring(vec![group(&["a1x", "a1y"])]);
    assert_eq!(
        rows(&one, &hall),
        [row("block", 1, 0, 0), row("rack", 1, 0, 0)]
    );
    assert_eq!(rows(&ring(Vec::new()), &hall), []);
}

#[test]
fn pods_of_a_group_stay_together_in_the_least_order() {
    let hall = [topology("hall", &["rack"])];
    let rack = |ranks: &[&str]| {
        ranks
            .iter()
            .map(|rank| format!("a{rank}"))
            .collect::<Vec<_>>()
    };
    let of = |groups: &[&[&str]]| {
        let groups = groups.iter().map(|g| rack(g));
        let groups = groups.map(|g| group(&g.iter().map(String::as_str).collect::<Vec<_>>()));
        rows(&ring(groups.collect()), &hall)
    };
    // The leader is between the workers of its rack in the ring.
    assert_eq!(of(&[&["2"], &["2", "1", "3"]]), [row("rack", 3, 3, 3)]);
    assert_eq!(of(&[&["2"], &["1", "2", "3"]]), [row("rack", 3, 4, 3)]);
    // Each group crosses once, and three borders between two racks cannot all be shared.
    assert_eq!(
        of(&[&["1", "2"], &["2", "1"], &["1", "2"]]),
        [row("rack", 2, 4, 4)]
    );
}

#[test]
fn requested_topology_is_measured() {
    let topologies = [
        topology("a-host", &["block", "rack", "host"]),
        topology("hall", &["rack"]),
    ];
    let mut ring = ring(vec![group(&["a1x"]), group(&["a2x"])]);
    let names = |ring: &RankRing| {
        let rows = rows(ring, &topologies);
        rows.into_iter().map(|row| row.0).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&ring),
        ["block", "rack", "host"],
        "the one with the most levels"
    );
    let topologies = [
        topology("a-hall", &["rack"]),
        topology("host", &["block", "rack", "host"]),
    ];
    let names = |ring: &RankRing| {
        let rows = rows(ring, &topologies);
        rows.into_iter().map(|row| row.0).collect::<Vec<_>>()
    };
    ring.topology = Some(TopologyRequest::required("rack"));
    assert_eq!(names(&ring), ["rack"], "the first by name with the level");
    // Slices decide, as for the order itself.
    ring.topology = None;
    ring.groups[1].slices = vec![SliceLayer::new("rack", 1)];
    assert_eq!(names(&ring), ["rack"]);
    ring.topology = Some(TopologyRequest::preferred("host"));
    ring.groups[0].nodes.clear();
    assert_eq!(
        names(&ring),
        ["block", "rack", "host"],
        "beside the level of the gang"
    );
    // A request for a level that no longer exists does not hide the others.
    ring.topology = Some(TopologyRequest::required("hall"));
    ring.groups[1].slices.clear();
    assert_eq!(names(&ring), ["block", "rack", "host"]);
}

#[test]
fn levels_without_a_domain_for_every_node_are_left_out() {
    let hall = [topology("hall", &["block", "rack"])];
    let ring = ring(vec![group(&["a1", "b"])]);
    assert_eq!(rows(&ring, &hall), [row("block", 2, 2, 2)]);
    assert_eq!(rows(&ring, &[topology("power", &["feed"])]), []);
}

/// Returns the fewest crossings of all orders in which the pods of each group stay together.
fn fewest_of_all_orders(groups: &mut Vec<Vec<u32>>, group: usize, from: usize) -> usize {
    let Some(pods) = groups.get(group).map(Vec::len) else {
        return measure(String::new(), groups).crossings;
    };
    if from == pods {
        return fewest_of_all_orders(groups, group.saturating_add(1), 0);
    }
    let orders = (from..pods).map(|at| {
        groups[group].swap(from, at);
        let fewest = fewest_of_all_orders(groups, group, from.saturating_add(1));
        groups[group].swap(from, at);
        fewest
    });
    orders.min().unwrap()
}

proptest! {
    #[test]
    fn least_crossings_are_those_of_the_best_order(
        mut groups in prop::collection::vec(prop::collection::vec(0..5_u32, 1..5), 1..5)
            .prop_filter("too many orders", |groups| groups.iter().map(Vec::len).sum::<usize>() < 11),
    ) {
        let least = measure(String::new(), &groups).least_crossings;
        prop_assert_eq!(fewest_of_all_orders(&mut groups, 0, 0), least, "{:?}", groups);
    }
}
