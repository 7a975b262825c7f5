//! Tests that packing keeps domains whole for gangs that need them.

use crate::common::*;
use crate::topology::{
    hall_engine, hall_node, requiring_one_rack, topology, use_gpus, whole_node_gang,
};
use proptest::prelude::*;
use trellis_scheduler::{
    Engine, Gang, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm,
    PlacementStrategy, PreferredSchedulingTerm, Resources, SliceLayer, TopologyRequest,
};

/// Two racks of three nodes.
const TWO_RACKS: [&str; 6] = ["a1-0", "a1-1", "a1-2", "a2-0", "a2-1", "a2-2"];

/// Lets the engine see a gang, and ends it.
pub fn learn(engine: &mut Engine, gang: Gang) {
    let id = gang.id.clone();
    engine.apply_gang(gang);
    engine.delete_gang(&id);
}

fn learn_rack_gang(engine: &mut Engine, pods: u32) {
    learn(engine, requiring_one_rack(whole_node_gang(pods, None)));
}

#[test]
fn gang_without_a_request_fills_the_broken_rack_once_gangs_have_needed_racks() {
    let mut engine = hall_engine(TWO_RACKS);
    use_gpus(&mut engine, "a2-0", 8);
    let small = whole_node_gang(2, None);
    assert_eq!(
        trial_placement(&mut engine, &small),
        "worker: a1-0*1 a1-1*1",
        "no gang has needed a rack: the first nodes by name"
    );
    learn_rack_gang(&mut engine, 3);
    assert_eq!(
        trial_placement(&mut engine, &small),
        "worker: a2-1*1 a2-2*1"
    );
    assert_eq!(
        trial_placement(&mut engine, &whole_node_gang(3, None)),
        "worker: a1-0*1 a2-1*1 a2-2*1",
        "one slice is lost at least"
    );
}

#[test]
fn spare_node_of_a_rack_is_used_before_a_slice_is_lost() {
    let mut engine = hall_engine(TWO_RACKS);
    learn_rack_gang(&mut engine, 2);
    use_gpus(&mut engine, "a1-0", 8);
    // Rack 1 holds one slice of 2 without a spare node, and rack 2 has a spare node.
    assert_eq!(
        trial_placement(&mut engine, &whole_node_gang(1, None)),
        "worker: a2-0*1"
    );
}

#[test]
fn size_counts_from_its_first_gang_on() {
    let mut engine = hall_engine(TWO_RACKS);
    use_gpus(&mut engine, "a2-0", 8);
    learn(&mut engine, workers("many", 1_000, gpu(8, 8)));
    learn_rack_gang(&mut engine, 3);
    assert_eq!(
        trial_placement(&mut engine, &whole_node_gang(1, None)),
        "worker: a2-1*1"
    );
}

#[test]
fn slices_count_like_required_levels() {
    let mut engine = hall_engine(TWO_RACKS);
    use_gpus(&mut engine, "a2-0", 8);
    let mut sliced = whole_node_gang(6, None);
    sliced.groups[0].slices = vec![SliceLayer::new("rack", 3)];
    learn(&mut engine, sliced);
    assert_eq!(
        trial_placement(&mut engine, &whole_node_gang(1, None)),
        "worker: a2-1*1"
    );
}

#[test]
fn preferred_levels_and_single_pods_keep_nothing_whole() {
    let mut engine = hall_engine(TWO_RACKS);
    use_gpus(&mut engine, "a2-0", 8);
    let preferred = Some(TopologyRequest::preferred("rack"));
    learn(&mut engine, whole_node_gang(3, preferred));
    learn_rack_gang(&mut engine, 1);
    assert_eq!(
        trial_placement(&mut engine, &whole_node_gang(1, None)),
        "worker: a1-0*1"
    );
}

#[test]
fn rack_in_a_broken_block_is_broken_before_one_in_a_whole_block() {
    let mut engine = hall_engine([
        "a1-0", "a1-1", "a2-0", "a2-1", "b1-0", "b1-1", "b2-0", "b2-1",
    ]);
    learn_rack_gang(&mut engine, 2);
    let block = Some(TopologyRequest::required("block"));
    learn(&mut engine, whole_node_gang(4, block));
    for node in ["b1-0", "b1-1"] {
        use_gpus(&mut engine, node, 8);
    }
    assert_eq!(
        trial_placement(&mut engine, &whole_node_gang(1, None)),
        "worker: b2-0*1"
    );
}

#[test]
fn job_without_gpus_uses_plain_nodes_then_broken_racks_then_whole_ones() {
    let mut engine = hall_engine(TWO_RACKS);
    engine.apply_node(cpu_node("z"));
    learn_rack_gang(&mut engine, 3);
    use_gpus(&mut engine, "a2-0", 8);
    // Each pod needs more cores than a plain node has twice, and than a GPU pod leaves.
    let cpu_gang = |pods| workers("c", pods, cpu(60));
    for (pods, nodes) in [
        (1, "worker: z*1"),
        (2, "worker: a2-0*1 z*1"),
        (4, "worker: a2-0*1 a2-1*1 a2-2*1 z*1"),
        (5, "worker: a1-0*1 a2-0*1 a2-1*1 a2-2*1 z*1"),
    ] {
        assert_eq!(trial_placement(&mut engine, &cpu_gang(pods)), nodes);
    }
}

#[test]
fn preferred_nodes_come_before_whole_domains() {
    let mut engine = hall_engine(TWO_RACKS);
    learn_rack_gang(&mut engine, 3);
    use_gpus(&mut engine, "a2-0", 8);
    let mut prefers = whole_node_gang(3, None);
    prefers.groups[0].constraints.preferred = vec![PreferredSchedulingTerm {
        weight: 1,
        term: NodeSelectorTerm {
            match_expressions: vec![NodeSelectorRequirement {
                key: "rack".to_owned(),
                operator: NodeSelectorOperator::In,
                values: vec!["1".to_owned()],
            }],
            match_fields: vec![],
        },
    }];
    assert_eq!(
        trial_placement(&mut engine, &prefers),
        "worker: a1-0*1 a1-1*1 a1-2*1"
    );
}

#[test]
fn racks_are_kept_whole_within_the_required_domain_of_another_topology() {
    let mut engine = engine(TWO_RACKS.map(|name| label(hall_node(name), "zone", "z")));
    engine.apply_topology(topology("hall", &["block", "rack"]));
    engine.apply_topology(topology("zones", &["zone"]));
    learn_rack_gang(&mut engine, 3);
    use_gpus(&mut engine, "a2-0", 8);
    let zone = Some(TopologyRequest::required("zone"));
    assert_eq!(
        trial_placement(&mut engine, &whole_node_gang(2, zone)),
        "worker: a2-1*1 a2-2*1"
    );
}

#[test]
fn spread_gang_chooses_its_nodes_by_free_capacity_alone() {
    let mut engine = hall_engine(TWO_RACKS);
    learn_rack_gang(&mut engine, 3);
    use_gpus(&mut engine, "a2-0", 1);
    let spread = Gang {
        strategy: PlacementStrategy::Spread,
        ..workers("w", 2, gpu(8, 1))
    };
    assert_eq!(
        trial_placement(&mut engine, &spread),
        "worker: a1-0*1 a1-1*1"
    );
}

#[test]
fn restored_history_keeps_the_same_racks_whole() {
    let mut engine = hall_engine(TWO_RACKS);
    learn_rack_gang(&mut engine, 3);
    let mut restarted = hall_engine(TWO_RACKS);
    use_gpus(&mut restarted, "a2-0", 8);
    let text = serde_json::to_string(&engine.history()).unwrap();
    restarted.restore_history(&serde_json::from_str(&text).unwrap());
    assert_eq!(
        trial_placement(&mut restarted, &whole_node_gang(1, None)),
        "worker: a2-1*1"
    );
}

#[test]
fn whole_domains_follow_changes_of_topologies_and_nodes() {
    let mut engine = engine([]);
    for node in TWO_RACKS {
        engine.apply_node(hall_node(node));
    }
    use_gpus(&mut engine, "a2-0", 8);
    learn_rack_gang(&mut engine, 3);
    let small = whole_node_gang(1, None);
    assert_eq!(trial_placement(&mut engine, &small), "worker: a1-0*1");
    engine.apply_topology(topology("hall", &["block", "rack"]));
    assert_eq!(trial_placement(&mut engine, &small), "worker: a2-1*1");
    // A node of rack 1 breaks, and rack 2 is whole again.
    let mut broken = hall_node("a1-2");
    broken.ready = false;
    engine.apply_node(broken);
    engine.delete_pod(&trellis_scheduler::PodKey::new("x/a2-0"));
    assert_eq!(trial_placement(&mut engine, &small), "worker: a1-0*1");
    engine.delete_topology(&trellis_scheduler::TopologyName::new("hall"));
    assert_eq!(trial_placement(&mut engine, &small), "worker: a1-0*1");
}

/// Racks in blocks: the block of each rack, its nodes, and how many of them are used.
fn any_racks() -> impl Strategy<Value = Vec<(u8, u32, u32)>> {
    let rack = (0..2_u8, 1..7_u32, 0..7_u32);
    let rack = rack.prop_map(|(block, nodes, used)| (block, nodes, used.min(nodes)));
    prop::collection::vec(rack, 1..6)
}

fn build_racks(racks: &[(u8, u32, u32)]) -> Engine {
    let names = |at: usize, (block, nodes, _): &(u8, u32, u32)| -> Vec<String> {
        let block = char::from(b'a' + block);
        (0..*nodes)
            .map(|node| format!("{block}{at}-{node}"))
            .collect()
    };
    let all: Vec<Vec<String>> = (0..).zip(racks).map(|(at, rack)| names(at, rack)).collect();
    let mut engine = hall_engine(all.iter().flatten().map(String::as_str));
    for (nodes, (.., used)) in all.iter().zip(racks) {
        for node in nodes.iter().take(*used as usize) {
            use_gpus(&mut engine, node, 8);
        }
    }
    engine
}

/// A level and the number of pods of a slice.
type Size = (&'static str, u32);

/// Returns the slices that all racks hold with this many free nodes in each.
fn count_slices(racks: &[(u8, u32, u32)], free: &[u32], (level, pods): Size) -> u32 {
    if level == "rack" {
        return free.iter().map(|free| free / pods).sum();
    }
    let block = |of: u8| -> u32 {
        let racks = racks.iter().zip(free);
        racks
            .filter(|((block, ..), _)| *block == of)
            .map(|(_, free)| *free)
            .sum()
    };
    (0..2).map(|of| block(of) / pods).sum()
}

/// Returns each way to take `count` free nodes, as the free nodes that are left in each rack.
fn ways(free: &[u32], count: u32) -> Vec<Vec<u32>> {
    let Some((first, others)) = free.split_first() else {
        return if count == 0 { vec![vec![]] } else { vec![] };
    };
    let takes = 0..=(*first).min(count);
    let all = takes.flat_map(|takes| {
        let rest = ways(others, count - takes).into_iter();
        rest.map(move |rest| [vec![first - takes], rest].concat())
    });
    all.collect()
}

/// Returns the free nodes that a placement leaves in each rack.
fn left_after(engine: &mut Engine, gang: &Gang, racks: usize, free: &[u32]) -> Option<Vec<u32>> {
    let placed = engine.try_gang(gang, ms(0)).ok()?.placement;
    let mut left = free.to_vec();
    for (node, _) in placed.groups().iter().flat_map(|group| &group.runs) {
        let rack: usize = node.as_str()[1..].split('-').next()?.parse().ok()?;
        assert!(rack < racks);
        left[rack] -= 1;
    }
    Some(left)
}

/// A gang whose pods each take a whole node: all GPUs, or so many cores that no GPU pod fits.
fn any_gang() -> impl Strategy<Value = Gang> {
    let request: [Resources; 2] = [gpu(8, 8), cpu(90)];
    (1..8_u32, prop::sample::select(request.to_vec()))
        .prop_map(|(pods, request)| workers("g", pods, request))
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn gang_loses_no_more_slices_than_the_best_of_all_placements(
        racks in any_racks(),
        pods in 2..5_u32,
        level in prop::sample::select(vec!["rack", "block"]),
        gang in any_gang(),
    ) {
        let mut engine = build_racks(&racks);
        let size = (level, pods);
        let request = Some(TopologyRequest::required(level));
        learn(&mut engine, whole_node_gang(pods, request));
        // A pod without GPUs also fits on a node whose GPUs are used.
        let spare = match gang.groups[0].request.iter().any(|(r, _)| r.as_str() == GPU) {
            true => 0,
            false => racks.iter().map(|(.., used)| used).sum(),
        };
        let free: Vec<u32> = racks.iter().map(|(_, nodes, used)| nodes - used).collect();
        let count = gang.groups[0].count.saturating_sub(spare);
        let best = ways(&free, count).iter().map(|left| count_slices(&racks, left, size)).max();
        let placed = engine.try_gang(&gang, ms(0)).ok();
        prop_assert_eq!(placed.is_some(), best.is_some());
        let Some(placed) = placed else { return Ok(()) };
        let mut left = free.clone();
        let nodes = placed.placement.groups()[0].runs.iter().map(|(node, _)| node.as_str());
        for node in nodes {
            let (rack, node) = node[1..].split_once('-').unwrap();
            let rack: usize = rack.parse().unwrap();
            if node.parse::<u32>().unwrap() >= racks[rack].2 {
                left[rack] -= 1;
            }
        }
        prop_assert_eq!(Some(count_slices(&racks, &left, size)), best, "{:?} of {:?}", left, free);
    }

    #[test]
    fn gang_loses_no_slice_of_any_size_if_a_placement_loses_none(
        racks in any_racks(),
        sizes in prop::collection::vec(
            (prop::sample::select(vec!["rack", "block"]), 2..6_u32), 1..4),
        pods in 1..8_u32,
    ) {
        let mut engine = build_racks(&racks);
        for (level, pods) in &sizes {
            let request = Some(TopologyRequest::required(level));
            learn(&mut engine, whole_node_gang(*pods, request));
        }
        let free: Vec<u32> = racks.iter().map(|(_, nodes, used)| nodes - used).collect();
        let counts = |left: &[u32]| -> Vec<u32> {
            sizes.iter().map(|size| count_slices(&racks, left, *size)).collect()
        };
        let keeps = ways(&free, pods).into_iter().any(|left| counts(&left) == counts(&free));
        let gang = whole_node_gang(pods, None);
        if let Some(left) = left_after(&mut engine, &gang, racks.len(), &free) && keeps {
            prop_assert_eq!(counts(&left), counts(&free), "{:?} of {:?}", left, free);
        }
    }
}
