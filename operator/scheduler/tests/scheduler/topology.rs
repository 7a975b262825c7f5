//! Tests of topology requests, in cases that users of Slurm's topology/tree and of Kueue's
//! topology-aware scheduling know.

pub(super) mod balanced;
pub(super) mod changes;
pub(super) mod displaced_groups;
pub(super) mod explanations;
pub(super) mod fit;
pub(super) mod levels;
pub(super) mod merged_groups;
pub(super) mod one_node;
pub(super) mod oracle;
pub(super) mod rank_order;
pub(super) mod slice_changes;
pub(super) mod slice_oracle;
pub(super) mod slice_replacements;
pub(super) mod slices;
pub(super) mod whole_domains;

use crate::common::*;
use trellis_scheduler::{
    Engine, Gang, Node, PlacementStrategy, TaskGroup, Topology, TopologyLevel, TopologyName,
    TopologyRequest,
};

pub fn topology(name: &str, levels: &[&str]) -> Topology {
    Topology {
        name: TopologyName::new(name),
        levels: levels
            .iter()
            .copied()
            .map(TopologyLevel::from_label)
            .collect(),
    }
}

/// Returns a node of 8 GPUs. Its name is block, rack and number: `a1-0`.
pub fn hall_node(name: &str) -> Node {
    let (block, rack) = (&name[..1], &name[1..2]);
    label(label(gpu_node(name, 8), "block", block), "rack", rack)
}

/// Returns an engine with these nodes and the topology of blocks and racks.
pub fn hall_engine<'a>(nodes: impl IntoIterator<Item = &'a str>) -> Engine {
    let mut engine = engine(nodes.into_iter().map(hall_node));
    engine.apply_topology(topology("hall", &["block", "rack"]));
    engine
}

/// Uses this many of the 8 GPUs of a node.
pub fn use_gpus(engine: &mut Engine, node: &str, gpus: i64) {
    apply_pod(engine, &format!("x/{node}"), node, gpu(1, gpus));
}

pub fn requiring_one_rack(gang: Gang) -> Gang {
    Gang {
        topology: Some(TopologyRequest::required("rack")),
        ..gang
    }
}

/// Returns a gang of pods that each need a whole node.
pub fn whole_node_gang(count: u32, topology: Option<TopologyRequest>) -> Gang {
    Gang {
        topology,
        ..workers("w", count, gpu(8, 8))
    }
}

const TWO_BLOCKS: [&str; 10] = [
    "a1-0", "a1-1", "a1-2", "a2-0", "a2-1", "b1-0", "b1-1", "b2-0", "b2-1", "b2-2",
];

#[test]
fn required_gang_takes_the_domain_with_the_least_free_capacity_then_the_first_by_name() {
    let mut engine = hall_engine(TWO_BLOCKS);
    let rack = |count| whole_node_gang(count, Some(TopologyRequest::required("rack")));
    assert_eq!(
        trial_placement(&mut engine, &rack(2)),
        "worker: a2-0*1 a2-1*1"
    );
    assert_eq!(
        trial_placement(&mut engine, &rack(3)),
        "worker: a1-0*1 a1-1*1 a1-2*1"
    );
    use_gpus(&mut engine, "a1-0", 1);
    // Rack a1 has 23 free GPUs, a2 has 16.
    assert_eq!(
        trial_placement(&mut engine, &rack(2)),
        "worker: a2-0*1 a2-1*1"
    );
    assert_eq!(
        trial_placement(&mut engine, &rack(3)),
        "worker: b2-0*1 b2-1*1 b2-2*1"
    );
    assert_eq!(
        trial_explanation(&mut engine, &rack(4)).reason.as_str(),
        "ExceedsTopology"
    );
}

#[test]
fn required_block_is_not_left_although_another_has_room() {
    let mut engine = hall_engine(TWO_BLOCKS);
    use_gpus(&mut engine, "a1-0", 8);
    let block = |count| whole_node_gang(count, Some(TopologyRequest::required("block")));
    assert_eq!(
        trial_placement(&mut engine, &block(4)),
        "worker: a1-1*1 a1-2*1 a2-0*1 a2-1*1"
    );
    assert_eq!(
        trial_placement(&mut engine, &block(5)),
        "worker: b1-0*1 b1-1*1 b2-0*1 b2-1*1 b2-2*1"
    );
    use_gpus(&mut engine, "b1-0", 8);
    assert_eq!(
        trial_explanation(&mut engine, &block(5)).reason.as_str(),
        "TopologyFragmented"
    );
    assert_eq!(
        trial_placement(
            &mut engine,
            &whole_node_gang(5, Some(TopologyRequest::preferred("block")))
        ),
        "worker: a1-1*1 a1-2*1 a2-0*1 a2-1*1 b1-1*1",
        "the largest is filled, the rest goes where it fits tightest"
    );
}

#[test]
fn within_a_block_the_fewest_racks_are_taken() {
    // Three racks of 2, 3 and 4: 6 pods fit into two of them, 2 and 4.
    let mut engine = hall_engine([
        "a1-0", "a1-1", "a2-0", "a2-1", "a2-2", "a3-0", "a3-1", "a3-2", "a3-3",
    ]);
    let expected = "worker: a1-0*1 a1-1*1 a3-0*1 a3-1*1 a3-2*1 a3-3*1";
    for request in [
        Some(TopologyRequest::required("block")),
        Some(TopologyRequest::preferred("block")),
        Some(TopologyRequest::preferred("rack")),
    ] {
        assert_eq!(
            trial_placement(&mut engine, &whole_node_gang(6, request)),
            expected
        );
    }
}

#[test]
fn preferred_gang_uses_one_domain_if_one_holds_it() {
    let mut engine = hall_engine(TWO_BLOCKS);
    use_gpus(&mut engine, "a2-0", 4);
    assert_eq!(
        trial_placement(
            &mut engine,
            &whole_node_gang(2, Some(TopologyRequest::preferred("rack")))
        ),
        "worker: b1-0*1 b1-1*1"
    );
    let small = Gang {
        topology: Some(TopologyRequest::preferred("rack")),
        ..workers("w", 3, gpu(1, 1))
    };
    assert_eq!(
        trial_placement(&mut engine, &small),
        "worker: a2-0*3",
        "in the tightest domain packing is as ever"
    );
}

#[test]
fn small_pods_are_packed_inside_the_domain() {
    let mut engine = hall_engine(TWO_BLOCKS);
    use_gpus(&mut engine, "b1-1", 6);
    use_gpus(&mut engine, "a2-1", 2);
    let gang = requiring_one_rack(workers("w", 5, gpu(1, 1)));
    // There is room for 10 in `b1`, and for 14 in `a2`. In `b1` the engine first fills the node
    // that is already in use.
    assert_eq!(trial_placement(&mut engine, &gang), "worker: b1-0*3 b1-1*2");
}

#[test]
fn spread_gang_is_spread_within_its_domain() {
    let mut engine = hall_engine(TWO_BLOCKS);
    let gang = Gang {
        strategy: PlacementStrategy::Spread,
        ..requiring_one_rack(workers("w", 4, gpu(1, 1)))
    };
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a2-0*2 a2-1*2");
}

#[test]
fn each_group_is_in_a_rack_and_all_racks_are_in_a_block() {
    let mut engine = hall_engine(TWO_BLOCKS);
    let stage = |name: &str, count| TaskGroup {
        topology: Some(TopologyRequest::required("rack")),
        ..group(name, count, gpu(8, 8))
    };
    let mut pipeline = gang("w", vec![stage("first", 2), stage("last", 3)]);
    pipeline.topology = Some(TopologyRequest::required("block"));
    assert_eq!(
        trial_placement(&mut engine, &pipeline),
        "first: a2-0*1 a2-1*1, last: a1-0*1 a1-1*1 a1-2*1"
    );
    use_gpus(&mut engine, "a2-1", 1);
    assert_eq!(
        trial_placement(&mut engine, &pipeline),
        "first: b1-0*1 b1-1*1, last: b2-0*1 b2-1*1 b2-2*1"
    );
    use_gpus(&mut engine, "b2-1", 1);
    assert_eq!(
        trial_explanation(&mut engine, &pipeline).reason.as_str(),
        "TopologyFragmented",
        "a1 and b1 would do, but are not in one block"
    );
    pipeline.topology = Some(TopologyRequest::preferred("block"));
    assert_eq!(
        trial_placement(&mut engine, &pipeline),
        "first: b1-0*1 b1-1*1, last: a1-0*1 a1-1*1 a1-2*1"
    );
}

#[test]
fn group_does_not_take_the_only_rack_of_another_group() {
    // The largest pods go first: `big` would take `a1`, the tightest. `fast` fits only there.
    let mut nodes: Vec<Node> = ["a1-0", "a2-0"].map(hall_node).to_vec();
    nodes[0] = label(nodes[0].clone(), "fast", "yes");
    nodes[1].allocatable = nodes[1].allocatable.clone().with(GPU, 9);
    let mut engine = engine(nodes);
    engine.apply_topology(topology("hall", &["block", "rack"]));
    let in_a_rack = |mut group: TaskGroup| {
        group.topology = Some(TopologyRequest::required("rack"));
        group
    };
    let big = in_a_rack(group("big", 1, gpu(8, 8)));
    let mut fast = in_a_rack(group("fast", 4, gpu(1, 2)));
    fast.constraints
        .node_selector
        .insert("fast".into(), "yes".into());
    let gang = Gang {
        topology: Some(TopologyRequest::required("block")),
        ..gang("w", vec![big, fast])
    };
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "big: a2-0*1, fast: a1-0*4"
    );
}

#[test]
fn unlike_groups_share_a_rack() {
    let mut engine = hall_engine(["a1-0", "a1-1", "a2-0", "a2-1", "a2-2"]);
    let mut gang = gang(
        "w",
        vec![group("master", 1, gpu(1, 1)), group("worker", 2, gpu(8, 8))],
    );
    gang.topology = Some(TopologyRequest::required("rack"));
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "master: a2-2*1, worker: a2-0*1 a2-1*1",
        "a1 holds the workers, but not the master beside them"
    );
}
