//! Tests of gangs that are restored after a restart, and of their usage.

use crate::accounting::gpus;
use crate::common::*;
use trellis_scheduler::{Engine, GroupName, NodeName, Placement, QueueName, ResourceName};

fn worker_placement(runs: &[(&str, u32)]) -> Placement {
    let runs = runs
        .iter()
        .map(|(node, pods)| (NodeName::new(*node), *pods))
        .collect();
    [(GroupName::new("worker"), runs)].into_iter().collect()
}

#[test]
fn gang_is_restored_even_without_capacity() {
    let mut engine = engine([gpu_node("n00", 4)]);
    engine.apply_queue(queue("default", Some(&[])));
    let placement = worker_placement(&[("n00", 1), ("gone", 1)]);
    engine.restore_gang(workers("w", 2, gpu(8, 8)), placement.clone(), ms(0));
    assert_eq!(free_amount(&engine, "n00", GPU), -4);
    assert_eq!(engine.placement(&id("w")), Some(placement));
    assert_eq!(
        engine.queue_usage(&QueueName::new("default"))[&ResourceName::new(GPU)],
        16
    );
    assert_eq!(
        (engine.placed_gang_count(), engine.pending_gang_count()),
        (1, 0)
    );
    engine.apply_node(gpu_node("gone", 8));
    assert_eq!(free_amount(&engine, "gone", GPU), 0);
    engine.delete_gang(&id("w"));
    assert_eq!(
        (
            free_amount(&engine, "n00", GPU),
            free_amount(&engine, "gone", GPU)
        ),
        (4, 8)
    );
}

#[test]
fn restored_pods_count_once_if_observed_before_or_after() {
    let restore = |e: &mut Engine| {
        e.restore_gang(
            workers("w", 2, gpu(8, 8)),
            worker_placement(&[("n00", 1), ("n01", 1)]),
            ms(0),
        );
    };
    let see = |e: &mut Engine| e.apply_pod(worker_key("w", 0), NodeName::new("n00"), gpu(8, 8));
    for seen_first in [true, false] {
        let mut engine = engine(gpu_nodes(2));
        if seen_first {
            see(&mut engine);
            restore(&mut engine);
        } else {
            restore(&mut engine);
            see(&mut engine);
        }
        assert_eq!(gpus(&engine), [0, 0]);
        // The second pod ended before this engine started.
        engine.drop_assumed(&worker_key("w", 1));
        engine.drop_assumed(&worker_key("w", 1));
        engine.drop_assumed(&worker_key("w", 0));
        assert_eq!(gpus(&engine), [0, 8]);
        engine.delete_pod(&worker_key("w", 0));
        assert_eq!(gpus(&engine), [8, 8]);
        engine.release_gang(&id("w"), None);
        assert_eq!(gpus(&engine), [8, 8]);
    }
}

#[test]
fn restoring_replaces_a_placed_gang_and_places_a_pending_gang() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(workers("w", 1, gpu(8, 8)));
    engine.restore_gang(
        workers("w", 1, gpu(8, 8)),
        worker_placement(&[("n01", 1)]),
        ms(0),
    );
    assert_eq!(gpus(&engine), [8, 0]);
    assert!(engine.cycle(ms(0)).is_empty());
    engine.restore_gang(
        workers("w", 1, gpu(4, 4)),
        worker_placement(&[("n00", 1)]),
        ms(0),
    );
    assert_eq!(gpus(&engine), [4, 8]);
    assert_eq!(
        (engine.placed_gang_count(), engine.pending_gang_count()),
        (1, 0)
    );
}

#[test]
fn restored_placement_is_used_as_far_as_it_matches_the_gang() {
    let mut engine = engine(gpu_nodes(2));
    let mut placement = worker_placement(&[("n00", 1), ("n01", 5)]);
    placement.push(GroupName::new("stranger"), vec![(NodeName::new("n01"), 1)]);
    engine.restore_gang(workers("w", 3, gpu(1, 1)), placement, ms(0));
    assert_eq!(gpus(&engine), [7, 6]);
    engine.restore_gang(
        workers("w", 3, gpu(1, 1)),
        worker_placement(&[("n00", 1)]),
        ms(0),
    );
    assert_eq!(gpus(&engine), [7, 8]);
    apply_pod(&mut engine, "team/w-worker-2", "n01", gpu(1, 1));
    assert_eq!(gpus(&engine), [7, 7]);
    engine.delete_gang(&id("w"));
    assert_eq!(gpus(&engine), [8, 7]);
}

/// The engine woke a gang, and the caller then reported it as already placed. Or the gang is gone,
/// and its number belongs to another gang.
#[test]
fn gang_restored_after_waking_is_not_placed_twice() {
    let on_n0 = || -> Placement {
        let runs = vec![(NodeName::new("n0"), 1)];
        [(GroupName::new("worker"), runs)].into_iter().collect()
    };
    for name in ["w", "other"] {
        let mut engine = engine(vec![gpu_node("n0", 4)]);
        engine.apply_gang(workers("w", 1, gpu(1, 8)));
        cycle(&mut engine);
        engine.apply_node(gpu_node("n0", 8));
        engine.apply_node(gpu_node("n1", 8));
        if name != "w" {
            engine.delete_gang(&id("w"));
        }
        engine.restore_gang(workers(name, 1, gpu(1, 8)), on_n0(), ms(0));
        assert!(cycle(&mut engine).is_empty());
        let free = ["n0", "n1"].map(|node| free_amount(&engine, node, GPU));
        assert_eq!((free, engine.placed_gang_count()), ([0, 8], 1), "{name}");
    }
}
