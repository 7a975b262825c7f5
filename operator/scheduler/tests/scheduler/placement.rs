//! Tests of placement.

pub(super) mod constraints;
pub(super) mod devices;
pub(super) mod score;

use crate::common::*;
use trellis_scheduler::{Decision, Gang, PlacementStrategy, Resources, WaitReason};

#[test]
fn single_gpus_are_packed_so_that_a_whole_node_stays_free() {
    let mut engine = engine(gpu_nodes(3));
    for i in 0..9 {
        engine.apply_gang(workers(&format!("one-{i}"), 1, gpu(1, 1)));
    }
    engine.apply_gang(workers("whole", 1, gpu(8, 8)));
    assert_eq!(engine.cycle(ms(0)).len(), 10);
    let used: Vec<i64> = (0..3)
        .map(|i| 8 - free_amount(&engine, &format!("n0{i}"), GPU))
        .collect();
    assert_eq!(
        used,
        [8, 1, 8],
        "one full, the ninth beside it, one whole for the last"
    );
}

#[test]
fn best_fit_takes_the_node_that_leaves_the_fewest_gpus() {
    let mut engine = engine(gpu_nodes(3));
    apply_pod(&mut engine, "x/a", "n01", gpu(1, 4));
    apply_pod(&mut engine, "x/b", "n02", gpu(1, 6));
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 1, gpu(1, 2))),
        "worker: n02*1"
    );
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 1, gpu(1, 3))),
        "worker: n01*1"
    );
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 3, gpu(1, 2))),
        "worker: n01*2 n02*1"
    );
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 1, gpu(1, 5))),
        "worker: n00*1"
    );
}

#[test]
fn equal_free_gpus_are_ranked_by_free_cores_then_by_name() {
    let mut engine = engine(gpu_nodes(3));
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 1, gpu(1, 8))),
        "worker: n00*1"
    );
    apply_pod(&mut engine, "x/a", "n01", cpu(10));
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 1, gpu(1, 8))),
        "worker: n01*1"
    );
}

#[test]
fn placement_does_not_depend_on_node_arrival_order() {
    let mut engine = engine(["c", "a", "b"].map(|n| gpu_node(n, 8)));
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 2, gpu(1, 8))),
        "worker: a*1 b*1"
    );
    engine.apply_node(gpu_node("aa", 8));
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 2, gpu(1, 8))),
        "worker: a*1 aa*1"
    );
}

#[test]
fn pods_without_devices_avoid_gpu_nodes_and_empty_nodes() {
    let mut engine = engine([gpu_node("g", 8), cpu_node("c1"), cpu_node("c2")]);
    apply_pod(&mut engine, "x/a", "c2", cpu(1));
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 1, cpu(4))),
        "worker: c2*1"
    );
    apply_pod(&mut engine, "x/b", "c2", cpu(60));
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 1, cpu(4))),
        "worker: c1*1"
    );
    apply_pod(&mut engine, "x/c", "c1", cpu(61));
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 1, cpu(4))),
        "worker: g*1"
    );
}

#[test]
fn gpu_nodes_without_free_gpus_take_pods_without_devices() {
    let mut engine = engine(gpu_nodes(2));
    apply_pod(&mut engine, "x/a", "n01", gpu(1, 8));
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 1, cpu(4))),
        "worker: n01*1"
    );
}

#[test]
fn pod_count_of_a_node_limits_placement() {
    let small = node("n", cpu(64).with("pods", 3));
    let mut engine = engine([small]);
    apply_pod(&mut engine, "x/a", "n", Resources::new());
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 2, cpu(1))),
        "worker: n*2"
    );
    let refusal = trial_explanation(&mut engine, &workers("w", 3, cpu(1)));
    assert_eq!(refusal.reason, WaitReason::InsufficientCapacity);
    assert!(
        refusal.to_string().starts_with("needs 3 pods, 2 are free"),
        "{refusal}"
    );
}

#[test]
fn one_of_two_gangs_of_64_runs_on_100_places() {
    let mut engine = engine((0..100).map(|i| gpu_node(&format!("n{i:03}"), 1)));
    engine.apply_gang(workers("a", 64, gpu(1, 1)));
    engine.apply_gang(workers("b", 64, gpu(1, 1)));
    assert_eq!(cycle(&mut engine), ["+a", "-b InsufficientCapacity"]);
    let explanation = engine.explanation(&id("b")).unwrap().to_string();
    assert_eq!(
        explanation,
        "needs 64 nvidia.com/gpu, 36 are free on 100 matching nodes: 28 are missing; \
         gangs hold 64, other pods 0"
    );
    assert!(engine.cycle(ms(1)).is_empty());
    engine.delete_gang(&id("a"));
    assert_eq!(cycle(&mut engine), ["+b"]);
}

#[test]
fn a_gang_of_unlike_groups_is_placed_largest_first() {
    let mut engine = engine([gpu_node("g1", 8), gpu_node("g2", 8)]);
    let gang = gang(
        "mixed",
        vec![group("master", 1, cpu(4)), group("worker", 2, gpu(90, 8))],
    );
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "master: g1*1, worker: g1*1 g2*1"
    );
}

#[test]
fn colliding_groups_are_placed_by_the_exhaustive_search() {
    // The order by size puts the big pod onto the first node. The small pods have room only there.
    let nodes = [
        node("a", cpu(9).with("pods", 10)),
        node("b", cpu(10).with("pods", 1)),
    ];
    let mut engine = engine(nodes);
    let gang = gang(
        "g",
        vec![group("big", 1, cpu(8)), group("small", 8, cpu(1))],
    );
    assert_eq!(trial_placement(&mut engine, &gang), "big: b*1, small: a*8");
}

/// Returns an engine with nodes without devices. The larger node comes first by name.
fn engine_with_unlike_nodes() -> trellis_scheduler::Engine {
    let sized = |name: &str, cores| node(name, cpu(cores).with("pods", 110));
    engine([
        sized("a-large", 8),
        sized("b-small", 2),
        sized("c-medium", 4),
    ])
}

#[test]
fn pack_takes_the_smallest_of_empty_nodes_without_devices() {
    let mut engine = engine_with_unlike_nodes();
    let one = workers("w", 1, cpu(1));
    assert_eq!(trial_placement(&mut engine, &one), "worker: b-small*1");
    apply_pod(&mut engine, "x/a", "a-large", cpu(1));
    let expected = "worker: a-large*1";
    assert_eq!(
        trial_placement(&mut engine, &one),
        expected,
        "whole nodes stay free"
    );
}

#[test]
fn spread_takes_the_node_without_devices_that_has_most_free_cores() {
    let mut engine = engine_with_unlike_nodes();
    let gang = |count| Gang {
        strategy: PlacementStrategy::Spread,
        ..workers("w", count, cpu(1))
    };
    assert_eq!(trial_placement(&mut engine, &gang(1)), "worker: a-large*1");
    assert_eq!(
        trial_placement(&mut engine, &gang(2)),
        "worker: a-large*1 c-medium*1"
    );
    apply_pod(&mut engine, "x/a", "a-large", cpu(5));
    let expected = "worker: c-medium*1";
    assert_eq!(
        trial_placement(&mut engine, &gang(1)),
        expected,
        "3 of 8 cores are free"
    );
}

#[test]
fn device_named_by_a_group_drives_packing() {
    let both =
        |name: &str, gpus, nics| node(name, gpu(96, gpus).with("pods", 110).with("rdma/hca", nics));
    let mut engine = engine([both("a", 8, 2), both("b", 6, 8)]);
    let mut gang = workers("w", 1, gpu(1, 2).with("rdma/hca", 1));
    assert_eq!(
        trial_placement(&mut engine, &gang),
        "worker: b*1",
        "the first device by name"
    );
    gang.groups[0].device = Some(trellis_scheduler::ResourceName::new("rdma/hca"));
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a*1");
}

#[test]
fn score_counts_the_devices_left_on_used_nodes() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(workers("w", 3, gpu(1, 4)));
    let decisions = engine.cycle(ms(0));
    let Decision::Place { score, .. } = &decisions[0] else {
        panic!("it fits");
    };
    assert_eq!((score.nodes, score.devices_left), (2, 4));
}

#[test]
fn gang_of_four_thousand_pods_and_gang_without_pods_are_placed() {
    let mut engine = engine((0..40).map(|i| node(&format!("n{i:02}"), cpu(96).with("pods", 110))));
    assert_eq!(
        engine
            .try_gang(&workers("w", 4_096, cpu(0)), ms(0))
            .unwrap()
            .placement
            .pod_count(),
        4_096
    );
    assert_eq!(
        engine
            .try_gang(&workers("w", 0, cpu(1)), ms(0))
            .unwrap()
            .placement
            .pod_count(),
        0
    );
    assert_eq!(
        engine
            .try_gang(&gang("w", vec![]), ms(0))
            .unwrap()
            .placement
            .pod_count(),
        0
    );
}

#[test]
fn search_at_its_bound_ends_with_an_uncertain_result() {
    // There is one node too few for pods of three, four and five GPUs in pairs. There are far more
    // ways to share the nodes than the engine tries.
    let mut engine = engine((0..44).map(|i| gpu_node(&format!("n{i:02}"), 8)));
    let groups = vec![
        group("five", 20, gpu(1, 5)),
        group("four", 30, gpu(1, 4)),
        group("three", 40, gpu(1, 3)),
        group("none", 200, cpu(10)),
    ];
    let refusal = trial_explanation(&mut engine, &gang("g", groups));
    assert_eq!(refusal.reason, WaitReason::Fragmented);
    assert_eq!(
        refusal.to_string(),
        "each task group fits alone, but 44 matching nodes have no room for all 290 pods \
         together; not every way was tried"
    );
}
