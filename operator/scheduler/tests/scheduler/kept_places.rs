//! Tests of kept places of gangs that restart.

pub(super) mod other_gangs;

use std::time::Duration;

use crate::common::*;
use crate::limits::gpu_draw;
use crate::preemption::{
    apply_pods_of, delete_pods_of, engine_with_priority_preemption, expect_preemption,
    priority_gang, run_cycle_at, seconds,
};
use crate::snapshots::restored_engine;
use trellis_scheduler::{
    Engine, Gang, GroupName, NodeName, Queue, QueueName, QueueStop, Topology, TopologyLevel,
    TopologyName, TopologyRequest, WaitReason,
};

pub fn node_names(names: &[&str]) -> Vec<NodeName> {
    names.iter().map(|name| NodeName::new(*name)).collect()
}

/// Returns an engine, and a gang on as many nodes as it has pods, starting with `n00`. The engine
/// has seen its pods.
pub fn engine_with_running_gang(nodes: usize, pods: u32) -> (Engine, Gang) {
    let mut engine = engine(gpu_nodes(nodes));
    let gang = priority_gang(0, "w", pods);
    engine.apply_gang(gang.clone());
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+w"]);
    apply_pods_of(&mut engine, &gang);
    (engine, gang)
}

pub fn placement_text(engine: &Engine, name: &str) -> String {
    format_placement(&engine.placement(&id(name)).unwrap())
}

#[test]
fn room_of_a_restarting_gang_is_reserved_except_on_excluded_nodes() {
    let (mut engine, gang) = engine_with_running_gang(2, 2);
    assert!(engine.keep_place(&id("w"), &node_names(&["n01"]), seconds(120)));
    engine.apply_gang(priority_gang(9, "other", 1));
    // Its pods still exist, and count once.
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-other InsufficientCapacity"]
    );
    assert_eq!(
        (
            free_amount(&engine, "n00", GPU),
            free_amount(&engine, "n01", GPU)
        ),
        (0, 0)
    );
    delete_pods_of(&mut engine, &gang);
    assert_eq!(
        (
            free_amount(&engine, "n00", GPU),
            free_amount(&engine, "n01", GPU)
        ),
        (0, 8)
    );
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["+other"]);
    assert_eq!(placement_text(&engine, "other"), "worker: n01*1");
}

/// A try that comes too early finds no room, and no later event would wake the gang: the room of its
/// pods stays kept.
#[test]
fn restarting_gang_is_not_tried_because_its_limits_are_set() {
    for limits in [vec![], vec![gpu_draw(99)]] {
        let (mut engine, gang) = engine_with_running_gang(2, 2);
        engine.keep_place(&id("w"), &[], seconds(120));
        engine.apply_draws(&id("w"), limits.clone());
        assert!(run_cycle_at(&mut engine, seconds(1)).is_empty());
        delete_pods_of(&mut engine, &gang);
        engine.apply_gang(Gang {
            draws: limits,
            ..gang
        });
        assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["+w"]);
    }
}

#[test]
fn restarting_gang_returns_to_its_nodes_except_the_lost_rank() {
    let (mut engine, gang) = engine_with_running_gang(3, 3);
    engine.keep_place(&id("w"), &node_names(&["n01"]), seconds(120));
    engine.delete_node(&NodeName::new("n01"));
    delete_pods_of(&mut engine, &gang);
    engine.apply_node(gpu_node("n03", 8));
    // The best fit for all pods would be on another node.
    engine.apply_node(gpu_node("a", 24));
    engine.apply_gang(Gang {
        excluded_nodes: node_names(&["n01", "a"]),
        ..gang
    });
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+w"]);
    assert_eq!(placement_text(&engine, "w"), "worker: n00*1 n03*1 n02*1");
    for node in ["n00", "n02", "n03"] {
        assert_eq!(free_amount(&engine, node, GPU), 0);
    }
    assert_eq!(engine.next_wakeup(), None);
}

#[test]
fn restarting_gang_returns_although_other_nodes_pack_better() {
    let gang = workers("w", 2, gpu(1, 3));
    let mut anew = engine([gpu_node("n00", 8), gpu_node("n01", 6)]);
    assert_eq!(trial_placement(&mut anew, &gang), "worker: n01*2");
    let mut engine = engine([gpu_node("n00", 8)]);
    engine.apply_gang(gang.clone());
    run_cycle_at(&mut engine, seconds(0));
    engine.keep_place(&id("w"), &[], seconds(120));
    engine.apply_node(gpu_node("n01", 6));
    engine.apply_gang(gang);
    run_cycle_at(&mut engine, seconds(1));
    assert_eq!(placement_text(&engine, "w"), "worker: n00*2");
}

#[test]
fn restarting_gang_is_tried_only_once_it_is_applied() {
    let (mut engine, gang) = engine_with_running_gang(1, 1);
    engine.keep_place(&id("w"), &[], seconds(120));
    delete_pods_of(&mut engine, &gang);
    assert!(engine.cycle(seconds(1)).is_empty());
    assert_eq!(engine.pending_gang_count(), 0);
    assert_eq!(engine.explain(&id("w"), seconds(1)), None);
    engine.apply_gang(gang);
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+w"]);
}

#[test]
fn restarting_gang_that_waits_keeps_its_place() {
    let (mut engine, gang) = engine_with_running_gang(2, 2);
    engine.keep_place(&id("w"), &node_names(&["n01"]), seconds(120));
    delete_pods_of(&mut engine, &gang);
    engine.delete_node(&NodeName::new("n01"));
    engine.apply_gang(Gang {
        excluded_nodes: node_names(&["n01"]),
        ..gang
    });
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["-w ExceedsCluster"]);
    engine.apply_gang(priority_gang(9, "other", 1));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["-other InsufficientCapacity"]
    );
    engine.apply_node(gpu_node("n02", 4));
    let told = engine.explain(&id("w"), seconds(2)).unwrap();
    assert_eq!(told.reason, WaitReason::ExceedsCluster);
    engine.apply_node(gpu_node("n02", 8));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(3)),
        ["+other", "-w InsufficientCapacity"]
    );
    assert_eq!(placement_text(&engine, "other"), "worker: n02*1");
    // The gang lacks one node, not two.
    let told = engine.explain(&id("w"), seconds(3)).unwrap();
    let change = told.change.as_ref().unwrap().to_string();
    assert!(
        change.contains("n02") && !change.contains("n00"),
        "{change}"
    );
    engine.apply_node(gpu_node("n03", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(4)), ["+w"]);
    assert_eq!(placement_text(&engine, "w"), "worker: n00*1 n03*1");
}

/// Every end of a kept place gives all of its room and quota back.
#[test]
fn kept_place_ends_by_timeout_or_with_its_gang_or_queue() {
    type End = fn(&mut Engine);
    let ends: [(&str, End); 5] = [
        ("until", |_| {}),
        ("deleted", |engine| engine.delete_gang(&id("w"))),
        ("released", |engine| {
            engine.release_gang(&id("w"), Some(seconds(900)));
        }),
        ("stopped", |engine| {
            engine.apply_queue(Queue {
                stop: QueueStop::Hold,
                ..Queue::new(QueueName::new("q"))
            });
        }),
        ("without a queue", |engine| {
            engine.delete_queue(&QueueName::new("q"));
        }),
    ];
    for (what, end) in ends {
        let mut engine = engine(gpu_nodes(1));
        let limited = queue("q", Some(&[(GPU, 8), ("cpu", 1 << 40)]));
        engine.apply_queue(limited);
        let gang = Gang {
            queue: QueueName::new("q"),
            ..priority_gang(0, "w", 1)
        };
        engine.apply_gang(gang.clone());
        engine.cycle(seconds(0));
        apply_pods_of(&mut engine, &gang);
        engine.keep_place(&id("w"), &[], seconds(120));
        delete_pods_of(&mut engine, &gang);
        engine.apply_gang(priority_gang(0, "other", 1));
        run_cycle_at(&mut engine, seconds(119));
        assert_eq!(engine.next_wakeup(), Some(seconds(120)), "{what}");
        assert_eq!(free_amount(&engine, "n00", GPU), 0, "{what}");
        end(&mut engine);
        let now = if what == "until" { 120 } else { 119 };
        let said = run_cycle_at(&mut engine, seconds(now));
        assert_eq!(said[0], "+other", "{what}");
        assert!(
            engine.queue_usage(&QueueName::new("q")).is_empty(),
            "{what}"
        );
        engine.delete_gang(&id("other"));
        assert_eq!(free_amount(&engine, "n00", GPU), 8, "{what}");
    }
}

#[test]
fn gang_without_a_settled_place_has_no_kept_place() {
    let mut engine = engine_with_priority_preemption(1);
    assert!(!engine.keep_place(&id("unknown"), &[], seconds(9)));
    engine.apply_gang(priority_gang(0, "low", 1));
    assert!(!engine.keep_place(&id("low"), &[], seconds(9)));
    engine.cycle(seconds(0));
    engine.apply_gang(priority_gang(1, "high", 1));
    expect_preemption(&mut engine, seconds(1));
    assert!(!engine.keep_place(&id("low"), &[], seconds(9)), "it leaves");
    assert!(
        !engine.keep_place(&id("high"), &[], seconds(9)),
        "it follows"
    );
    engine.delete_gang(&id("low"));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["+high"]);
    engine.apply_node(gpu_node("n01", 8));
    engine.apply_gang(Gang {
        surplus: true,
        ..priority_gang(0, "surplus", 1)
    });
    assert_eq!(run_cycle_at(&mut engine, seconds(3)), ["+surplus"]);
    assert!(!engine.keep_place(&id("surplus"), &[], seconds(9)));
    assert_eq!(engine.placed_gang_count(), 2, "nothing is done");
}

#[test]
fn late_pod_of_a_restarting_gang_counts_once() {
    let mut engine = engine(gpu_nodes(2));
    let gang = priority_gang(0, "w", 1);
    engine.apply_gang(gang.clone());
    engine.cycle(seconds(0));
    engine.keep_place(&id("w"), &[], seconds(120));
    assert_eq!(free_amount(&engine, "n00", GPU), 0, "it may be there");
    apply_pod(&mut engine, "team/w-worker-0", "n00", gpu(1, 8));
    assert_eq!(free_amount(&engine, "n00", GPU), 0);
    engine.delete_pod(&worker_key("w", 0));
    assert_eq!(free_amount(&engine, "n00", GPU), 0);
    // The pod differs from the plan, and the actual pod counts.
    apply_pod(&mut engine, "team/w-worker-0", "n00", gpu(1, 5));
    assert_eq!(free_amount(&engine, "n00", GPU), 3);
    engine.delete_gang(&id("w"));
    assert_eq!(free_amount(&engine, "n00", GPU), 3);
    engine.delete_pod(&worker_key("w", 0));
    assert_eq!(free_amount(&engine, "n00", GPU), 8);
}

#[test]
fn failed_rank_returns_to_its_node_if_the_node_is_free() {
    for taken in [false, true] {
        let (mut engine, gang) = engine_with_running_gang(2, 2);
        engine.apply_node(gpu_node("n02", 8));
        engine.delete_pod(&worker_key("w", 0));
        if taken {
            apply_pod(&mut engine, "x/y", "n00", gpu(1, 1));
        }
        engine.keep_place(&id("w"), &[], seconds(120));
        delete_pods_of(&mut engine, &gang);
        assert_eq!(free_amount(&engine, "n00", GPU), if taken { 7 } else { 0 });
        engine.apply_gang(gang);
        assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+w"]);
        let expected = if taken {
            "worker: n02*1 n01*1"
        } else {
            "worker: n00*1 n01*1"
        };
        assert_eq!(placement_text(&engine, "w"), expected);
    }
}

#[test]
fn lost_rank_is_placed_in_the_domain_of_the_other_ranks() {
    let racks = ["a", "b", "b", "a", "b"];
    let all = (0..5)
        .zip(racks)
        .map(|(at, rack)| label(gpu_node(&format!("n{at:02}"), 8), "rack", rack));
    let mut engine = engine(all);
    engine.apply_topology(Topology {
        name: TopologyName::new("network"),
        levels: vec![TopologyLevel::from_label("rack")],
    });
    let gang = Gang {
        topology: Some(TopologyRequest::required("rack")),
        excluded_nodes: node_names(&["n03"]),
        ..priority_gang(0, "w", 2)
    };
    engine.apply_gang(gang.clone());
    run_cycle_at(&mut engine, seconds(0));
    assert_eq!(placement_text(&engine, "w"), "worker: n01*1 n02*1");
    engine.keep_place(&id("w"), &node_names(&["n02"]), seconds(120));
    engine.apply_gang(Gang {
        excluded_nodes: node_names(&["n02"]),
        ..gang
    });
    // The other rack is free, and first by name.
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+w"]);
    assert_eq!(placement_text(&engine, "w"), "worker: n01*1 n04*1");
}

#[test]
fn kept_place_survives_a_snapshot() {
    let (mut engine, gang) = engine_with_running_gang(3, 3);
    engine.delete_pod(&worker_key("w", 2));
    engine.keep_place(&id("w"), &node_names(&["n01"]), seconds(120));
    engine.delete_pod(&worker_key("w", 0));
    let mut again = restored_engine(&engine).unwrap();
    for engine in [&mut engine, &mut again] {
        engine.apply_gang(priority_gang(9, "other", 1));
        assert_eq!(
            run_cycle_at(engine, seconds(1)),
            ["-other InsufficientCapacity"]
        );
        engine.delete_pod(&worker_key("w", 1));
        assert_eq!(run_cycle_at(engine, seconds(2)), ["+other"]);
        assert_eq!(free_amount(engine, "n00", GPU), 0);
        assert_eq!(free_amount(engine, "n02", GPU), 0);
        engine.apply_gang(gang.clone());
        engine.apply_node(gpu_node("n03", 8));
        assert_eq!(run_cycle_at(engine, seconds(3)), ["+w"]);
        assert_eq!(placement_text(engine, "w"), "worker: n00*1 n03*1 n02*1");
    }
    // A snapshot without kept places is still readable.
    let mut text = serde_json::to_value(engine.snapshot()).unwrap();
    let gang = &mut text["gangs"][0];
    assert!(gang.get("kept").is_none() && gang.get("idle").is_none());
    text["gangs"] = serde_json::json!([]);
    serde_json::from_value::<trellis_scheduler::Snapshot>(text).unwrap();
}

#[test]
fn grown_group_returns_its_former_ranks_to_their_nodes() {
    let mut engine = engine(gpu_nodes(3));
    let two = |count| {
        gang(
            "w",
            vec![group("a", 1, gpu(1, 4)), group("b", count, gpu(1, 4))],
        )
    };
    engine.apply_gang(two(2));
    run_cycle_at(&mut engine, seconds(0));
    let before = engine.placement(&id("w")).unwrap();
    engine.keep_place(&id("w"), &[], seconds(120));
    engine.apply_gang(Gang {
        runtime: Some(Duration::from_secs(9)),
        ..two(4)
    });
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+w"]);
    let now = engine.placement(&id("w")).unwrap();
    let rank = |placement: &trellis_scheduler::Placement, group: &str, rank: u32| {
        let mut all = placement.iter();
        let found = all.find(|(g, i, _)| **g == GroupName::new(group) && *i == rank);
        found.map(|(.., node)| node.clone())
    };
    for (group, index) in [("a", 0), ("b", 0), ("b", 1)] {
        assert_eq!(rank(&now, group, index), rank(&before, group, index));
    }
    assert_eq!(now.pod_count(), 5);
}
