//! Tests of slices: each run of so many consecutive pods of a group is in one domain. The cases are
//! those of Kueue's `podset-slice-required-topology`, of Slurm's `--segment`, and of NVLink racks.

use std::time::Duration;

use crate::common::*;
use crate::kept_places::node_names;
use crate::preemption::{LOWER, priority_gang, run_cycle_at, seconds};
use crate::topology::{hall_engine, topology, use_gpus};
use trellis_scheduler::{
    Engine, Gang, NodeName, PlacementStrategy, Queue, SliceLayer, TopologyRequest, WaitReason,
};

/// Returns a gang of pods that each need a whole node, in slices.
pub fn sliced_gang(count: u32, slices: &[(&str, u32)]) -> Gang {
    with_slices(workers("w", count, gpu(8, 8)), slices)
}

/// Splits the first group of a gang.
pub fn with_slices(mut gang: Gang, slices: &[(&str, u32)]) -> Gang {
    let layers = slices
        .iter()
        .map(|(level, pods)| SliceLayer::new(level, *pods));
    gang.groups[0].slices = layers.collect();
    gang
}

fn all_nodes_but(nodes: &[&str], kept: &str) -> Vec<NodeName> {
    let others: Vec<&str> = nodes.iter().copied().filter(|node| *node != kept).collect();
    node_names(&others)
}

/// Returns two blocks: `a` has racks of 3, 3 and 2 nodes, `b` has racks of 4 and 1.
pub fn hall() -> Engine {
    hall_engine([
        "a1-0", "a1-1", "a1-2", "a2-0", "a2-1", "a2-2", "a3-0", "a3-1", "b1-0", "b1-1", "b1-2",
        "b1-3", "b2-0",
    ])
}

#[test]
fn each_slice_is_in_one_rack() {
    let placed = trial_placement(&mut hall(), &sliced_gang(4, &[("rack", 2)]));
    assert_eq!(
        placed, "worker: b1-0*1 b1-1*1 b1-2*1 b1-3*1",
        "one rack holds both"
    );
    // Without slices, 6 pods would take b1 and two nodes of another rack.
    let placed = trial_placement(&mut hall(), &sliced_gang(6, &[("rack", 3)]));
    assert_eq!(placed, "worker: a1-0*1 a1-1*1 a1-2*1 a2-0*1 a2-1*1 a2-2*1");
    let placed = trial_placement(&mut hall(), &sliced_gang(9, &[("rack", 3)]));
    assert_eq!(
        placed,
        "worker: a1-0*1 a1-1*1 a1-2*1 a2-0*1 a2-1*1 a2-2*1 b1-0*1 b1-1*1 b1-2*1"
    );
}

#[test]
fn slices_with_a_required_level_are_in_one_domain_of_it() {
    let mut gang = sliced_gang(4, &[("rack", 2)]);
    gang.groups[0].topology = Some(TopologyRequest::required("block"));
    let mut engine = hall();
    use_gpus(&mut engine, "b1-3", 1);
    // Three nodes of b1 hold one slice, and b2 holds none.
    let placed = trial_placement(&mut engine, &gang);
    assert_eq!(placed, "worker: a1-0*1 a1-1*1 a3-0*1 a3-1*1");
    let mut of_job = sliced_gang(4, &[("rack", 2)]);
    of_job.topology = Some(TopologyRequest::required("block"));
    assert_eq!(trial_placement(&mut engine, &of_job), placed);
    assert_eq!(
        trial_explanation(
            &mut engine,
            &Gang {
                topology: of_job.topology,
                ..sliced_gang(8, &[("rack", 2)])
            }
        )
        .to_string(),
        "8 pods must be in slices of 2, each in one domain of level \"rack\" and all in one domain of level \"block\"; in \"a\", 3 of 4 slices have room even when empty; \"a/1\" comes closest to another slice, with room for 1 of its 2 pods"
    );
}

#[test]
fn outer_slices_consist_of_inner_slices() {
    let mut engine = engine([]);
    engine.apply_topology(topology("hall", &["block", "rack"]));
    for (name, block, rack) in [
        ("n0", "a", "1"),
        ("n1", "a", "1"),
        ("n2", "a", "1"),
        ("n3", "a", "2"),
        ("n4", "b", "1"),
        ("n5", "b", "1"),
        ("n6", "b", "2"),
        ("n7", "b", "2"),
    ] {
        engine.apply_node(label(
            label(gpu_node(name, 8), "block", block),
            "rack",
            rack,
        ));
    }
    // Block a has 4 nodes, but room for only one inner slice: its racks have 3 nodes and 1 node.
    let layers = [("block", 4), ("rack", 2)];
    let placed = trial_placement(&mut engine, &sliced_gang(4, &layers));
    assert_eq!(placed, "worker: n4*1 n5*1 n6*1 n7*1");
    assert_eq!(
        trial_explanation(&mut engine, &sliced_gang(6, &[("block", 6), ("rack", 2)])).to_string(),
        "6 pods must be in slices of 6, each in one domain of level \"block\"; 0 of 1 slices have \
         room even when empty; \"b\" comes closest to another slice, with room for 4 of its 6 pods"
    );
}

/// The racks are the obstacle, although the message could also count blocks.
#[test]
fn explanation_names_the_finest_layer_without_room() {
    let mut engine = hall();
    for node in ["a3-0", "b1-0"] {
        use_gpus(&mut engine, node, 1);
    }
    let gang = sliced_gang(8, &[("block", 4), ("rack", 4)]);
    assert_eq!(
        trial_explanation(&mut engine, &gang).to_string(),
        "8 pods must be in slices of 4, each in one domain of level \"rack\"; 1 of 2 slices has \
         room even when empty; \"a/1\" comes closest to another slice, with room for 3 of its 4 \
         pods"
    );
    let mut engine = engine_without_racks();
    let gang = sliced_gang(4, &[("block", 4), ("rack", 2)]);
    assert_eq!(
        trial_explanation(&mut engine, &gang).to_string(),
        "4 pods must be in slices of 2, each in one domain of level \"rack\", and no node has the \
         labels \"block\" and \"rack\": label the nodes, or use another level"
    );
}

/// Returns nodes of one block that lack the label of their rack.
fn engine_without_racks() -> Engine {
    let nodes = ["n0", "n1", "n2", "n3"].map(|name| label(gpu_node(name, 8), "block", "a"));
    let mut engine = engine(nodes);
    engine.apply_topology(topology("hall", &["block", "rack"]));
    engine
}

#[test]
fn several_pods_of_a_slice_share_a_node() {
    let gang = with_slices(workers("w", 12, gpu(8, 4)), &[("rack", 6)]);
    let placed = trial_placement(&mut hall(), &gang);
    assert_eq!(placed, "worker: a1-0*2 a1-1*2 a1-2*2 a2-0*2 a2-1*2 a2-2*2");
}

#[test]
fn spread_pods_keep_their_slices() {
    let gang = with_slices(workers("w", 4, gpu(8, 2)), &[("rack", 4)]);
    let gang = Gang {
        strategy: PlacementStrategy::Spread,
        ..gang
    };
    let mut engine = hall();
    for node in ["a3-0", "a3-1", "b2-0"] {
        use_gpus(&mut engine, node, 8);
    }
    let placed = trial_placement(&mut engine, &gang);
    assert_eq!(placed, "worker: a1-0*2 a1-1*1 a1-2*1");
}

#[test]
fn nodes_without_the_label_hold_no_slice() {
    let mut engine = hall();
    engine.apply_node(label(gpu_node("stray", 8), "block", "a"));
    let placed = trial_placement(&mut engine, &sliced_gang(1, &[("rack", 1)]));
    assert_eq!(placed, "worker: b2-0*1");
    assert_eq!(
        trial_explanation(&mut engine, &sliced_gang(14, &[("rack", 1)])).to_string(),
        "14 pods must be in slices of 1, each in one domain of level \"rack\"; 13 of 14 slices \
         have room even when empty; no domain has room for a pod of another slice; 1 node is in no domain of level \"rack\", because it lacks the label \"block\" or \"rack\""
    );
}

#[test]
fn explanation_names_the_rack_that_lacks_least_and_the_room_to_free() {
    let mut engine = hall();
    for node in ["a1-0", "b1-0", "b1-1"] {
        use_gpus(&mut engine, node, 1);
    }
    assert_eq!(
        trial_explanation(&mut engine, &sliced_gang(6, &[("rack", 3)])).to_string(),
        "6 pods must be in slices of 3, each in one domain of level \"rack\"; 1 of 2 slices has \
         room; \"a/1\" comes closest to another slice, with room for 2 of its 3 pods; it would fit with 1 \
         nvidia.com/gpu more free on \"a1-0\""
    );
}

#[test]
fn missing_and_coarser_levels_are_named() {
    let explain = |slices: &[(&str, u32)]| {
        trial_explanation(&mut hall(), &sliced_gang(4, slices)).to_string()
    };
    assert_eq!(
        explain(&[("row", 2)]),
        "topology.slices: no Topology has a level \"row\": name one of \"block\", \"rack\", or \
         create a Topology that has it"
    );
    assert_eq!(
        explain(&[("rack", 4), ("block", 2)]),
        "topology.slices: level \"block\" must be finer than \"rack\" and in the same Topology: name a \
         finer level, or remove one of the two"
    );
}

/// Returns an engine with these nodes, and a default queue in which priority preempts.
fn preempting_hall<'a>(nodes: impl IntoIterator<Item = &'a str>) -> Engine {
    let mut engine = hall_engine(nodes);
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..queue("default", None)
    });
    engine
}

/// Returns a gang of one pod that needs this node as a whole.
fn gang_on_node(name: &str, nodes: &[&str], node: &str) -> Gang {
    Gang {
        excluded_nodes: all_nodes_but(nodes, node),
        ..priority_gang(0, name, 1)
    }
}

#[test]
fn preemption_frees_whole_slices() {
    let nodes = ["a1-0", "a1-1", "a2-0", "a2-1", "a3-0", "a3-1"];
    let mut engine = preempting_hall(nodes);
    // Each gang has one node, and the cheapest two victims are in different racks.
    for (at, node) in nodes.into_iter().enumerate() {
        engine.apply_gang(Gang {
            priority: [1, 3, 1, 3, 2, 2][at],
            ..gang_on_node(&format!("low-{node}"), &nodes, node)
        });
    }
    let started = cycle(&mut engine);
    assert_eq!(started.len(), 6, "{started:?}");
    engine.apply_gang(Gang {
        priority: 9,
        ..sliced_gang(2, &[("rack", 2)])
    });
    assert_eq!(cycle(&mut engine), ["!w low-a3-0 low-a3-1"]);
}

#[test]
fn reservation_waits_for_a_whole_slice() {
    let nodes = ["a1-0", "a1-1", "a2-0", "a2-1"];
    let mut engine = hall_engine(nodes);
    for (name, node, runtime) in [("x", "a1-0", 10), ("y", "a2-0", 20), ("z", "a1-1", 90)] {
        engine.apply_gang(Gang {
            runtime: Some(Duration::from_secs(runtime)),
            ..gang_on_node(name, &nodes, node)
        });
    }
    assert_eq!(cycle(&mut engine), ["+x", "+y", "+z"]);
    engine.apply_gang(sliced_gang(2, &[("rack", 2)]));
    // After 10 s two nodes are free, one in each rack.
    assert_eq!(cycle(&mut engine), ["-w InsufficientCapacity"]);
    let reservation = engine.reservation(&id("w")).unwrap();
    assert_eq!(reservation.start, Some(seconds(20)));
}

/// Each rack has one slice. The victims of rack 1 lose 1, 1, 1 and 9, those of rack 2 lose 5 each.
#[test]
fn preemption_compares_the_loss_of_whole_slices() {
    let nodes = [
        "a1-0", "a1-1", "a1-2", "a1-3", "a2-0", "a2-1", "a2-2", "a2-3",
    ];
    let mut engine = preempting_hall(nodes);
    let start_on = |engine: &mut Engine, at: i64, started: &[&str]| {
        for node in started {
            engine.apply_gang(gang_on_node(&format!("low-{node}"), &nodes, node));
        }
        assert_eq!(run_cycle_at(engine, seconds(at)).len(), started.len());
    };
    start_on(&mut engine, 0, &["a1-3"]);
    start_on(&mut engine, 40, &["a2-0", "a2-1", "a2-2", "a2-3"]);
    start_on(&mut engine, 80, &["a1-0", "a1-1", "a1-2"]);
    engine.apply_gang(Gang {
        priority: 9,
        ..sliced_gang(4, &[("rack", 4)])
    });
    assert_eq!(
        run_cycle_at(&mut engine, seconds(90)),
        ["!w low-a1-0 low-a1-1 low-a1-2 low-a1-3"]
    );
}

#[test]
fn slices_are_in_the_topology_of_the_request() {
    let mut engine = hall();
    engine.apply_topology(topology("a-power", &["rack"]));
    let mut gang = sliced_gang(4, &[("rack", 2)]);
    gang.groups[0].topology = Some(TopologyRequest::required("block"));
    let placed = trial_placement(&mut engine, &gang);
    assert_eq!(placed, "worker: b1-0*1 b1-1*1 b1-2*1 b1-3*1");
    let mut of_job = sliced_gang(4, &[("rack", 2)]);
    of_job.topology = Some(TopologyRequest::required("block"));
    assert_eq!(trial_placement(&mut engine, &of_job), placed);
    gang.groups[0].slices = vec![SliceLayer::new("feed", 2)];
    engine.apply_topology(topology("z-feeds", &["feed"]));
    assert_eq!(
        trial_explanation(&mut engine, &gang).to_string(),
        "topology.slices: no Topology has both level \"feed\" and the requested level \"block\": \
         name levels of one Topology, or remove one of the two"
    );
}

/// Block a has racks of 2 and 2 nodes: room for 4 pods, and for 4 in whole slices. Block b has room
/// for 6 pods, but for none in a whole slice.
#[test]
fn slices_that_fit_in_no_block_can_never_start() {
    let mut engine = engine([]);
    engine.apply_topology(topology("hall", &["block", "rack"]));
    for (at, (block, rack)) in [
        ("a", "1"),
        ("a", "1"),
        ("a", "2"),
        ("a", "2"),
        ("b", "1"),
        ("b", "2"),
        ("b", "3"),
        ("b", "4"),
        ("b", "5"),
        ("b", "6"),
    ]
    .into_iter()
    .enumerate()
    {
        let node = gpu_node(&format!("n{at}"), 8);
        engine.apply_node(label(label(node, "block", block), "rack", rack));
    }
    let mut gang = sliced_gang(6, &[("rack", 2)]);
    gang.groups[0].topology = Some(TopologyRequest::required("block"));
    assert_eq!(
        trial_explanation(&mut engine, &gang).to_string(),
        "6 pods must be in slices of 2, each in one domain of level \"rack\" and all in one domain \
         of level \"block\"; in \"b\", 0 of 3 slices have room even when empty; \"b/1\" comes \
         closest to another slice, with room for 1 of its 2 pods"
    );
    let reason = trial_explanation(&mut engine, &gang).reason;
    assert_eq!(reason, WaitReason::ExceedsTopology);
}

/// Such slices would have no effect, so they are a mistake.
#[test]
fn slices_that_are_no_finer_than_the_required_level_are_refused() {
    for level in ["block", "rack"] {
        let message = format!(
            "topology.slices: level {level:?} must be finer than \"rack\" and in the same \
             Topology: name a finer level, or remove one of the two"
        );
        let mut gang = sliced_gang(2, &[(level, 2)]);
        gang.groups[0].topology = Some(TopologyRequest::required("rack"));
        assert_eq!(trial_explanation(&mut hall(), &gang).to_string(), message);
        let mut of_job = sliced_gang(2, &[(level, 2)]);
        of_job.topology = Some(TopologyRequest::required("rack"));
        assert_eq!(trial_explanation(&mut hall(), &of_job).to_string(), message);
    }
    // A preference requires nothing.
    let mut gang = sliced_gang(2, &[("rack", 2)]);
    gang.groups[0].topology = Some(TopologyRequest::preferred("rack"));
    assert_eq!(trial_placement(&mut hall(), &gang), "worker: a3-0*1 a3-1*1");
}
