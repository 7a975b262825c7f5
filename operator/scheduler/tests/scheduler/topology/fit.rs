//! Tests of best fit among domains: a gang takes the domain with the least free capacity that holds
//! it, so that whole domains stay free.

use crate::common::*;
use crate::topology::{hall_engine, hall_node, use_gpus, whole_node_gang};
use proptest::prelude::*;
use std::collections::BTreeSet;
use trellis_scheduler::{
    Gang, Node, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, PlacementStrategy,
    PreferredSchedulingTerm, TaskGroup, Topology, TopologyLevel, TopologyName, TopologyRequest,
};

/// A block of two racks of two nodes of 8 GPUs each.
const BLOCK: [&str; 4] = ["a1-0", "a1-1", "a2-0", "a2-1"];
/// Two blocks of this shape.
const TWO_BLOCKS: [&str; 8] = [
    "a1-0", "a1-1", "a2-0", "a2-1", "b1-0", "b1-1", "b2-0", "b2-1",
];

fn required_and_preferred(level: &str) -> [TopologyRequest; 2] {
    [
        TopologyRequest::required(level),
        TopologyRequest::preferred(level),
    ]
}

/// Returns a gang of pods of this many GPUs.
fn small_gang(count: u32, gpus: i64, topology: TopologyRequest) -> Gang {
    Gang {
        topology: Some(topology),
        ..workers("w", count, gpu(1, gpus))
    }
}

pub fn add_preference(gang: &mut Gang, key: &str, value: &str) {
    for group in &mut gang.groups {
        group.constraints.preferred = vec![PreferredSchedulingTerm {
            weight: 1,
            term: NodeSelectorTerm {
                match_expressions: vec![NodeSelectorRequirement {
                    key: key.into(),
                    operator: NodeSelectorOperator::In,
                    values: vec![value.into()],
                }],
                match_fields: vec![],
            },
        }];
    }
}

#[test]
fn small_gang_takes_the_rack_that_is_used_already() {
    for request in required_and_preferred("rack") {
        let mut engine = hall_engine(BLOCK);
        use_gpus(&mut engine, "a2-0", 1);
        use_gpus(&mut engine, "a2-1", 1);
        let gang = small_gang(2, 2, request.clone());
        assert_eq!(
            trial_placement(&mut engine, &gang),
            "worker: a2-0*2",
            "{request:?}"
        );
    }
}

#[test]
fn gang_larger_than_a_rack_takes_the_block_that_is_used_already() {
    for request in required_and_preferred("block") {
        let mut engine = hall_engine(TWO_BLOCKS);
        use_gpus(&mut engine, "b2-1", 1);
        let gang = small_gang(3, 5, request.clone());
        let expected = "worker: b1-0*1 b2-0*1 b2-1*1";
        assert_eq!(trial_placement(&mut engine, &gang), expected, "{request:?}");
    }
}

/// Block `a` has the least free capacity, but its nodes are in three racks.
#[test]
fn gang_in_one_block_takes_the_block_in_which_it_needs_the_fewest_racks() {
    let nodes = ["a1-0", "a2-0", "a3-0", "b1-0", "b1-1", "b2-0", "b2-1"];
    let alike = workers("w", 3, gpu(1, 8));
    let unlike = gang(
        "w",
        vec![group("one", 2, gpu(1, 8)), group("two", 1, gpu(2, 8))],
    );
    let spread = Gang {
        strategy: PlacementStrategy::Spread,
        ..alike.clone()
    };
    let mut of_group = alike.clone();
    of_group.groups[0].topology = Some(TopologyRequest::preferred("rack"));
    let within = TopologyRequest::required_and_preferred("block", "rack");
    let required = TopologyRequest::required("block");
    let in_b = "worker: b1-0*1 b1-1*1 b2-0*1";
    for (gang, request, expected) in [
        (&alike, &required, "worker: a1-0*1 a2-0*1 a3-0*1"),
        (&alike, &within, in_b),
        (&spread, &within, in_b),
        (&of_group, &required, in_b),
        (&unlike, &required, "one: a1-0*1 a2-0*1, two: a3-0*1"),
        (&unlike, &within, "one: b1-0*1 b1-1*1, two: b2-0*1"),
    ] {
        let mut gang = gang.clone();
        gang.topology = Some(request.clone());
        assert_eq!(
            trial_placement(&mut hall_engine(nodes), &gang),
            expected,
            "{gang:?}"
        );
    }
}

/// Block a of the zone holds the gang in three racks, and the zone holds it in two.
#[test]
fn levels_between_the_required_and_the_preferred_one_do_not_count() {
    for unlike in [false, true] {
        let nodes = ["a1-0", "a2-0", "a3-0", "b1-0", "b1-1", "c1-0"];
        let mut engine = engine(nodes.map(|name| label(hall_node(name), "zone", "z")));
        engine.apply_topology(Topology {
            name: TopologyName::new("hall"),
            levels: ["zone", "block", "rack"]
                .map(TopologyLevel::from_label)
                .to_vec(),
        });
        let groups = match unlike {
            true => vec![group("one", 2, gpu(1, 8)), group("two", 1, gpu(2, 8))],
            false => vec![group("one", 3, gpu(1, 8))],
        };
        let gang = Gang {
            topology: Some(TopologyRequest::required_and_preferred("zone", "rack")),
            ..gang("w", groups)
        };
        let placed = engine.try_gang(&gang, ms(0)).unwrap().placement;
        let racks: BTreeSet<&str> = placed.iter().map(|(_, _, n)| &n.as_str()[..2]).collect();
        assert_eq!(racks.len(), 2, "{placed:?}");
    }
}

/// A rack of two nodes has room for each group alone, but not for both.
#[test]
fn rack_counts_unlike_groups_together() {
    let nodes = [
        "a1-0", "a1-1", "a2-0", "a3-0", "b1-0", "b1-1", "b1-2", "b2-0",
    ];
    let gang = Gang {
        topology: Some(TopologyRequest::required_and_preferred("block", "rack")),
        ..gang(
            "w",
            vec![group("one", 2, gpu(1, 8)), group("two", 2, gpu(2, 8))],
        )
    };
    let placed = trial_placement(&mut hall_engine(nodes), &gang);
    assert!(
        placed.contains("b1-") && !placed.contains("a1-"),
        "{placed}"
    );
}

#[test]
fn equal_racks_are_compared_by_their_blocks() {
    for request in required_and_preferred("rack") {
        let mut engine = hall_engine(TWO_BLOCKS);
        use_gpus(&mut engine, "b1-0", 8);
        let alike = whole_node_gang(2, Some(request.clone()));
        assert_eq!(
            trial_placement(&mut engine, &alike),
            "worker: b2-0*1 b2-1*1"
        );
        let unlike = Gang {
            topology: Some(request.clone()),
            ..gang(
                "w",
                vec![group("one", 1, gpu(1, 8)), group("two", 1, gpu(2, 8))],
            )
        };
        assert_eq!(
            trial_placement(&mut engine, &unlike),
            "one: b2-0*1, two: b2-1*1"
        );
    }
}

#[test]
fn gang_of_several_groups_takes_the_rack_that_is_used_already() {
    for request in required_and_preferred("rack") {
        let mut engine = hall_engine(BLOCK);
        use_gpus(&mut engine, "a2-0", 3);
        let groups = vec![group("master", 1, cpu(2)), group("worker", 2, gpu(1, 2))];
        let gang = Gang {
            topology: Some(request.clone()),
            ..gang("w", groups)
        };
        let expected = "master: a2-0*1, worker: a2-0*2";
        assert_eq!(trial_placement(&mut engine, &gang), expected, "{request:?}");
    }
}

#[test]
fn groups_with_own_racks_take_racks_that_are_used_already() {
    for request in required_and_preferred("rack") {
        let mut engine = hall_engine(TWO_BLOCKS);
        use_gpus(&mut engine, "a2-0", 4);
        use_gpus(&mut engine, "b2-0", 5);
        let in_a_rack = |name: &str, gpus| TaskGroup {
            topology: Some(request.clone()),
            ..group(name, 1, gpu(1, gpus))
        };
        let gang = gang("w", vec![in_a_rack("four", 4), in_a_rack("three", 3)]);
        let expected = "four: b2-1*1, three: b2-0*1";
        assert_eq!(trial_placement(&mut engine, &gang), expected, "{request:?}");
    }
}

#[test]
fn rest_of_a_gang_takes_the_rack_with_the_least_free_capacity() {
    let mut engine = hall_engine(["a1-0", "a1-1", "a2-0", "a2-1", "a3-0", "a3-1"]);
    use_gpus(&mut engine, "a3-0", 1);
    let three = whole_node_gang(3, Some(TopologyRequest::preferred("rack")));
    assert_eq!(
        trial_placement(&mut engine, &three),
        "worker: a1-0*1 a1-1*1 a3-1*1"
    );
}

#[test]
fn first_of_two_racks_is_in_the_block_that_is_used_already() {
    let mut engine = hall_engine(["a1-0", "a2-0", "a3-0", "b1-0", "b2-0", "b3-0"]);
    use_gpus(&mut engine, "b1-0", 8);
    let two = whole_node_gang(2, Some(TopologyRequest::preferred("rack")));
    assert_eq!(trial_placement(&mut engine, &two), "worker: b2-0*1 b3-0*1");
}

#[test]
fn free_cores_decide_where_free_devices_are_equal() {
    let mut engine = hall_engine(BLOCK);
    apply_pod(&mut engine, "x/cores", "a2-0", cpu(16));
    let gang = small_gang(1, 8, TopologyRequest::required("rack"));
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a2-0*1");
}

#[test]
fn gang_without_devices_takes_the_rack_without_devices_that_is_used_most() {
    let node = |name: &str, rack: &str| label(label(cpu_node(name), "block", "c"), "rack", rack);
    let mut engine = hall_engine(BLOCK);
    for (name, rack) in [("c1-0", "1"), ("c1-1", "1"), ("c2-0", "2"), ("c2-1", "2")] {
        engine.apply_node(node(name, rack));
    }
    apply_pod(&mut engine, "x/cores", "c2-0", cpu(16));
    apply_pod(&mut engine, "x/gpus", "a1-0", gpu(90, 8));
    let gang = Gang {
        topology: Some(TopologyRequest::required("rack")),
        ..workers("w", 2, cpu(20))
    };
    assert_eq!(trial_placement(&mut engine, &gang), "worker: c2-0*2");
}

#[test]
fn nodes_that_a_gang_cannot_use_do_not_count_as_free() {
    let mut engine = hall_engine(BLOCK);
    // The gang may use one node of a1 and both of a2: 8 and 15 GPUs are free.
    engine.apply_node(Node {
        unschedulable: true,
        ..hall_node("a1-1")
    });
    use_gpus(&mut engine, "a2-1", 1);
    let gang = small_gang(1, 4, TopologyRequest::required("rack"));
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a1-0*1");
}

#[test]
fn preferred_affinity_decides_among_racks_that_are_equally_full() {
    for request in required_and_preferred("rack") {
        let mut engine = hall_engine(TWO_BLOCKS);
        let mut alike = whole_node_gang(2, Some(request.clone()));
        add_preference(&mut alike, "block", "b");
        assert_eq!(
            trial_placement(&mut engine, &alike),
            "worker: b1-0*1 b1-1*1"
        );
        let mut unlike = Gang {
            topology: Some(request.clone()),
            ..gang(
                "w",
                vec![group("one", 1, gpu(1, 8)), group("two", 1, gpu(2, 8))],
            )
        };
        add_preference(&mut unlike, "block", "b");
        assert_eq!(
            trial_placement(&mut engine, &unlike),
            "one: b1-0*1, two: b1-1*1"
        );
        let mut spanning = whole_node_gang(3, Some(request.clone()));
        add_preference(&mut spanning, "rack", "2");
        if request == TopologyRequest::preferred("rack") {
            let expected = "worker: a2-0*1 a2-1*1 b2-0*1";
            assert_eq!(trial_placement(&mut engine, &spanning), expected);
        }
        // A rack that is already in use goes before a preferred rack.
        use_gpus(&mut engine, "a1-0", 1);
        let mut one = small_gang(1, 2, request.clone());
        add_preference(&mut one, "block", "b");
        assert_eq!(trial_placement(&mut engine, &one), "worker: a1-0*1");
    }
}

#[test]
fn spread_gang_takes_the_rack_with_the_least_free_capacity_too() {
    let mut engine = hall_engine(BLOCK);
    use_gpus(&mut engine, "a2-0", 1);
    let gang = Gang {
        strategy: PlacementStrategy::Spread,
        ..small_gang(2, 2, TopologyRequest::required("rack"))
    };
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a2-0*1 a2-1*1");
}

/// Generates the number of used GPUs on each node, for racks of three nodes in two blocks.
fn any_node_usage() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(
        prop_oneof![2 => Just(0_i64), 1 => Just(8), 3 => 0..9_i64],
        18,
    )
}

fn node_name(node: usize) -> String {
    let block = ["a", "b"][node / 9];
    format!("{block}{}-{}", node / 3 % 3, node % 3)
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// The chosen rack has the least free capacity of all racks that hold the gang. Among equal
    /// racks, its block has the least free capacity.
    #[test]
    fn gang_takes_the_fitting_rack_with_the_least_free_capacity(
        in_use in any_node_usage(), count in 1..5_u32, gpus in 1..9_i64, unlike in any::<bool>(),
        required in any::<bool>(),
    ) {
        let names: Vec<String> = (0..in_use.len()).map(node_name).collect();
        let mut engine = hall_engine(names.iter().map(String::as_str));
        for (name, used_gpus) in names.iter().zip(&in_use) {
            if *used_gpus > 0 {
                // The pods use no cores, so the racks differ only in GPUs.
                apply_pod(&mut engine, &format!("x/{name}"), name, gpu(0, *used_gpus));
            }
        }
        let topology = match required {
            true => TopologyRequest::required("rack"),
            false => TopologyRequest::preferred("rack"),
        };
        let mut gang = small_gang(count, gpus, topology);
        if unlike {
            gang.groups.push(group("other", 1, gpu(2, gpus)));
        }
        let pods = i64::from(count) + i64::from(unlike);
        let free: Vec<i64> = in_use.iter().map(|used| 8 - used).collect();
        let rack = |at: usize| &free[at * 3..at * 3 + 3];
        let sum = |at: usize| rack(at).iter().sum::<i64>();
        let block = |at: usize| (0..3).map(|rack| sum(at / 3 * 3 + rack)).sum::<i64>();
        let holds = |at: &usize| rack(*at).iter().map(|free| free / gpus).sum::<i64>() >= pods;
        let best = (0..6).filter(holds).min_by_key(|at| (sum(*at), block(*at), *at));
        let placed = engine.try_gang(&gang, ms(0));
        if let Some(best) = best {
            let runs = placed.unwrap().placement;
            let expected = node_name(best * 3)[..2].to_owned();
            for (_, _, node) in runs.iter() {
                prop_assert_eq!(&node.as_str()[..2], expected.as_str());
            }
        } else if required {
            prop_assert!(placed.is_err());
        }
    }
}
