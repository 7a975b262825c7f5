//! Tests that usage does not depend on the order of events.

use std::collections::BTreeMap;

use crate::common::*;
use trellis_scheduler::{
    Engine, NodeName, PodKey, QueueName, ResourceName, Resources, TaskGroup, WaitReason,
};

/// Returns an engine with two nodes and gang `w` of two whole-node workers on them.
fn engine_with_placed_gang() -> Engine {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(workers("w", 2, gpu(8, 8)));
    assert_eq!(cycle(&mut engine), ["+w"]);
    engine
}

pub fn gpus(engine: &Engine) -> Vec<i64> {
    ["n00", "n01"].map(|n| free_amount(engine, n, GPU)).to_vec()
}

#[test]
fn pod_counts_once_when_assumed_and_then_observed() {
    let mut engine = engine_with_placed_gang();
    assert_eq!(gpus(&engine), [0, 0]);
    engine.apply_pod(worker_key("w", 0), NodeName::new("n00"), gpu(8, 8));
    engine.apply_pod(worker_key("w", 0), NodeName::new("n00"), gpu(8, 8));
    assert_eq!(gpus(&engine), [0, 0]);
    assert_eq!(free_amount(&engine, "n00", "pods"), 109);
    engine.delete_pod(&worker_key("w", 0));
    assert_eq!(gpus(&engine), [8, 0]);
    engine.delete_pod(&worker_key("w", 0));
    assert_eq!(gpus(&engine), [8, 0]);
}

#[test]
fn lost_pod_keeps_its_room_while_its_gang_is_placed() {
    let mut engine = engine_with_placed_gang();
    let see =
        |e: &mut Engine, node| e.apply_pod(worker_key("w", 0), NodeName::new(node), gpu(8, 8));
    see(&mut engine, "n00");
    for _ in 0..2 {
        engine.lose_pod(&worker_key("w", 0));
        assert_eq!(gpus(&engine), [0, 0]);
        // The pod comes back on the same node, or elsewhere.
        see(&mut engine, "n00");
        assert_eq!(gpus(&engine), [0, 0]);
    }
    engine.lose_pod(&worker_key("w", 0));
    see(&mut engine, "n01");
    assert_eq!(gpus(&engine), [8, -8]);
    engine.lose_pod(&worker_key("w", 0));
    assert_eq!(gpus(&engine), [0, 0]);
    // The pod never comes back.
    engine.drop_assumed(&worker_key("w", 0));
    assert_eq!(gpus(&engine), [8, 0]);
    engine.lose_pod(&worker_key("w", 0));
    assert_eq!(gpus(&engine), [8, 0]);
    see(&mut engine, "n00");
    engine.lose_pod(&worker_key("w", 0));
    engine.delete_gang(&id("w"));
    assert_eq!(gpus(&engine), [8, 8]);
    // The engine keeps no room for a pod that belongs to no gang.
    apply_pod(&mut engine, "x/a", "n00", gpu(1, 1));
    engine.lose_pod(&PodKey::new("x/a"));
    assert_eq!(gpus(&engine), [8, 8]);
}

#[test]
fn pod_numbers_follow_the_starts_of_blocks() {
    let mut group = workers("more", 6, gpu(1, 1)).groups.remove(0);
    let prefix = group.pod_prefix.clone();
    let numbers = |group: &TaskGroup| (0..6).map(|i| group.pod_name(i).1).collect::<Vec<_>>();
    assert_eq!(numbers(&group), [0, 1, 2, 3, 4, 5]);
    assert_eq!(group.pod_index(&prefix, 6), None);
    group.starts = vec![9, 0, 3];
    assert_eq!(numbers(&group), [9, 10, 0, 1, 3, 4]);
    for index in 0..6 {
        let (prefix, number) = group.pod_name(index);
        assert_eq!(group.pod_index(prefix, number), Some(index));
    }
    assert_eq!(
        [2, 5, 8, 11].map(|number| group.pod_index(&prefix, number)),
        [None; 4]
    );
    assert_eq!(group.pod_index("other", 9), None);
}

#[test]
fn pods_may_be_numbered_from_any_first_index() {
    let mut engine = engine_with_placed_gang();
    engine.apply_node(gpu_node("n02", 8));
    let mut more = workers("more", 1, gpu(8, 8));
    more.groups[0].pod_prefix = "w-worker".to_owned();
    more.groups[0].starts = vec![2];
    engine.apply_gang(more);
    assert_eq!(cycle(&mut engine), ["+more"]);
    let free_on = |e: &Engine| ["n00", "n01", "n02"].map(|n| free_amount(e, n, GPU));
    let nodes = ["n00", "n01", "n02"];
    for (index, node) in (0..).zip(nodes) {
        engine.apply_pod(worker_key("w", index), NodeName::new(node), gpu(8, 8));
        assert_eq!(free_on(&engine), [0, 0, 0], "each takes its own place");
    }
    // A pod with an index beyond the gang belongs to no gang.
    engine.apply_pod(worker_key("w", 3), NodeName::new("n02"), gpu(1, 1));
    assert_eq!(free_on(&engine), [0, 0, -1]);
    engine.lose_pod(&worker_key("w", 3));
    engine.lose_pod(&worker_key("w", 2));
    assert_eq!(free_on(&engine), [0, 0, 0]);
    engine.delete_gang(&id("more"));
    assert_eq!(free_on(&engine), [0, 0, 8]);
}

#[test]
fn observed_pod_replaces_the_assumed_pod() {
    let mut engine = engine_with_placed_gang();
    // A webhook made the pod larger, and it went elsewhere.
    engine.apply_pod(worker_key("w", 0), NodeName::new("n01"), gpu(10, 8));
    assert_eq!(gpus(&engine), [8, -8]);
    assert_eq!(free_amount(&engine, "n01", "cpu"), 78_000);
    // Resized in place.
    engine.apply_pod(worker_key("w", 0), NodeName::new("n01"), gpu(4, 4));
    assert_eq!(gpus(&engine), [8, -4]);
    assert_eq!(free_amount(&engine, "n01", "cpu"), 84_000);
}

#[test]
fn released_gang_frees_assumed_pods_but_not_observed_pods() {
    type GiveUp = fn(&mut Engine);
    let ways: [GiveUp; 2] = [
        |e| e.release_gang(&id("w"), Some(ms(1_000_000))),
        |e| e.delete_gang(&id("w")),
    ];
    for give_up in ways {
        let mut engine = engine_with_placed_gang();
        engine.apply_pod(worker_key("w", 1), NodeName::new("n01"), gpu(8, 8));
        give_up(&mut engine);
        assert_eq!(gpus(&engine), [8, 0]);
        assert!(engine.queue_usage(&QueueName::new("default")).is_empty());
        // The pod terminates: an update changes nothing.
        engine.apply_pod(worker_key("w", 1), NodeName::new("n01"), gpu(8, 8));
        assert_eq!(gpus(&engine), [8, 0]);
        engine.delete_pod(&worker_key("w", 1));
        assert_eq!(gpus(&engine), [8, 8]);
        // A late event for a formerly planned pod counts as an external pod.
        engine.apply_pod(worker_key("w", 0), NodeName::new("n00"), gpu(8, 8));
        assert_eq!(gpus(&engine), [0, 8]);
    }
}

#[test]
fn a_terminating_pod_of_the_same_name_does_not_confirm_its_successor() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(workers("w", 1, gpu(8, 8)));
    cycle(&mut engine);
    engine.apply_pod(worker_key("w", 0), NodeName::new("n00"), gpu(8, 8));
    engine.release_gang(&id("w"), None);
    assert_eq!(cycle(&mut engine), ["+w"]);
    assert_eq!(
        gpus(&engine),
        [0, 0],
        "the old one and the place of the new one"
    );
    engine.apply_pod(worker_key("w", 0), NodeName::new("n00"), gpu(8, 8));
    assert_eq!(gpus(&engine), [0, 0]);
    engine.delete_pod(&worker_key("w", 0));
    assert_eq!(gpus(&engine), [8, 0]);
    engine.apply_pod(worker_key("w", 0), NodeName::new("n01"), gpu(8, 8));
    assert_eq!(gpus(&engine), [8, 0]);
    engine.delete_pod(&worker_key("w", 0));
    assert_eq!(gpus(&engine), [8, 8]);
}

#[test]
fn only_a_pod_with_the_exact_name_confirms_a_planned_pod() {
    for other in [
        "team/w-worker-00",
        "team/w-worker-+0",
        "team/w-worker-2",
        "team/w-worker-",
        "else/w-worker-0",
    ] {
        let mut engine = engine_with_placed_gang();
        apply_pod(&mut engine, other, "n00", cpu(1));
        assert_eq!(free_amount(&engine, "n00", "cpu"), 87_000, "{other}");
    }
}

#[test]
fn explanation_counts_gangs_and_external_pods_separately() {
    let mut engine = engine_with_placed_gang();
    engine.apply_pod(worker_key("w", 0), NodeName::new("n00"), gpu(8, 8));
    let held = |engine: &mut Engine| {
        let text = trial_explanation(engine, &workers("x", 1, gpu(1, 1))).to_string();
        text.split_once("gangs hold ").unwrap().1.to_owned()
    };
    assert_eq!(held(&mut engine), "16, other pods 0");
    engine.delete_gang(&id("w"));
    apply_pod(&mut engine, "x/a", "n01", gpu(1, 8));
    assert_eq!(
        held(&mut engine),
        "0, other pods 16",
        "what terminates is nobody's"
    );
}

#[test]
fn pods_on_unknown_nodes_count_when_the_node_appears() {
    let mut engine = engine([]);
    apply_pod(&mut engine, "x/a", "n00", gpu(1, 3));
    assert_eq!(engine.free(&NodeName::new("n00")), None);
    engine.apply_node(gpu_node("n00", 8));
    assert_eq!(free_amount(&engine, "n00", GPU), 5);
    engine.delete_node(&NodeName::new("n00"));
    engine.delete_node(&NodeName::new("n00"));
    assert_eq!(engine.free(&NodeName::new("n00")), None);
    apply_pod(&mut engine, "x/b", "n00", gpu(1, 1));
    engine.apply_node(gpu_node("n00", 8));
    assert_eq!(free_amount(&engine, "n00", GPU), 4);
    engine.delete_pod(&PodKey::new("x/a"));
    engine.delete_pod(&PodKey::new("x/b"));
    assert_eq!(free_amount(&engine, "n00", GPU), 8);
}

#[test]
fn node_that_lost_its_devices_keeps_its_usage() {
    let mut engine = engine_with_placed_gang();
    engine.apply_node(gpu_node("n00", 0));
    assert_eq!(gpus(&engine), [-8, 0]);
    engine.delete_gang(&id("w"));
    assert_eq!(gpus(&engine), [0, 8]);
    assert_eq!(
        trial_explanation(&mut engine, &workers("x", 2, gpu(1, 8))).reason,
        WaitReason::ExceedsCluster
    );
    engine.apply_node(gpu_node("n00", 8));
    assert_eq!(
        trial_placement(&mut engine, &workers("x", 2, gpu(1, 8))),
        "worker: n00*1 n01*1"
    );
}

#[test]
fn no_pod_is_placed_on_an_overbooked_node() {
    let mut engine = engine(gpu_nodes(1));
    apply_pod(&mut engine, "x/a", "n00", cpu(100));
    assert_eq!(free_amount(&engine, "n00", "cpu"), -4_000);
    let explanation = trial_explanation(&mut engine, &workers("w", 1, cpu(1)));
    assert_eq!(
        explanation.to_string(),
        "needs 1 cpu, 0 are free on 1 matching node: 1 is missing; gangs hold 0, other pods 100; \
         it would fit with 5 cpu more free on \"n00\""
    );
    // A pod that requests no cores can still go there.
    assert_eq!(
        trial_placement(&mut engine, &workers("w", 1, Resources::new().with(GPU, 1))),
        "worker: n00*1"
    );
}

#[test]
fn huge_requests_are_charged_and_released() {
    let mut engine = engine(gpu_nodes(1));
    for i in 0..3 {
        let absurd = Resources::new()
            .with("cpu", i64::MAX)
            .with("made.up/thing", i64::MAX);
        apply_pod(&mut engine, &format!("x/{i}"), "n00", absurd);
    }
    assert!(free_amount(&engine, "n00", "cpu") < 0);
    for i in 0..3 {
        engine.delete_pod(&PodKey::new(format!("x/{i}")));
    }
    assert_eq!(free_amount(&engine, "n00", "cpu"), 96_000);
}

#[test]
fn quota_is_charged_for_the_whole_gang_from_placement_to_release() {
    let quota = Some(&[("cpu", 96_000), (GPU, 16)][..]);
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(queue("default", quota));
    engine.apply_gang(workers("w", 2, gpu(8, 8)));
    cycle(&mut engine);
    let used = |e: &Engine| e.queue_usage(&QueueName::new("default"));
    let whole = BTreeMap::from([
        (ResourceName::new("cpu"), 16_000),
        (ResourceName::new("pods"), 2),
        (ResourceName::new(GPU), 16),
    ]);
    assert_eq!(used(&engine), whole);
    engine.apply_pod(worker_key("w", 0), NodeName::new("n00"), gpu(8, 8));
    engine.delete_pod(&worker_key("w", 0));
    assert_eq!(
        used(&engine),
        whole,
        "a pod that has ended gives nothing back"
    );
    engine.delete_queue(&QueueName::new("default"));
    assert_eq!(used(&engine), whole, "nor does a queue that is gone");
    engine.release_gang(&id("w"), None);
    assert_eq!(used(&engine), BTreeMap::new());
}

#[test]
fn gang_is_charged_to_the_queue_that_placed_it() {
    let mut engine = engine_with_placed_gang();
    engine.apply_queue(queue("other", None));
    let mut moved = workers("w", 1, gpu(1, 1));
    moved.queue = QueueName::new("other");
    engine.apply_gang(moved);
    assert!(engine.queue_usage(&QueueName::new("other")).is_empty());
    assert_eq!(gpus(&engine), [0, 0], "nothing moves while it is placed");
    engine.release_gang(&id("w"), None);
    assert_eq!(cycle(&mut engine), ["+w"]);
    assert!(engine.queue_usage(&QueueName::new("default")).is_empty());
    assert_eq!(
        engine.queue_usage(&QueueName::new("other"))[&ResourceName::new(GPU)],
        1
    );
    assert_eq!(gpus(&engine), [7, 8]);
}

#[test]
fn trial_changes_no_state() {
    let mut engine = engine_with_placed_gang();
    engine.delete_pod(&worker_key("w", 0));
    let before = gpus(&engine);
    let mixed = gang("g", vec![group("a", 1, cpu(80)), group("b", 2, cpu(4))]);
    let first = engine.try_gang(&mixed, ms(0));
    assert!(first.is_ok());
    assert_eq!(engine.try_gang(&mixed, ms(0)), first);
    assert_eq!(gpus(&engine), before);
    assert_eq!(free_amount(&engine, "n00", "cpu"), 88_000);
    assert_eq!(engine.pending_gang_count(), 0);
    assert!(engine.cycle(ms(0)).is_empty());
}

/// Users choose resource names, so the engine must forget all names of a deleted gang.
#[test]
fn names_used_by_a_deleted_gang_are_forgotten() {
    let mut engine = engine([gpu_node("n0", 8)]);
    let size = |engine: &Engine| format!("{engine:?}").len();
    let churn = |engine: &mut Engine, from: usize| {
        for i in from..from + 500 {
            let odd = format!("example.com/r{i}");
            let gang = workers("w", 1, cpu(1).with(&odd, 1));
            assert!(engine.try_gang(&gang, ms(0)).is_err());
            engine.apply_gang(gang);
            engine.cycle(ms(0));
            engine.delete_gang(&id("w"));
        }
        size(engine)
    };
    let before = churn(&mut engine, 0);
    let after = churn(&mut engine, 500);
    assert!(after < before + before / 10, "{before} -> {after}");
}
