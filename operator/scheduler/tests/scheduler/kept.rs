//! Tests of places that are kept for gangs that restart.

use std::time::Duration;

use crate::common::*;
use crate::preemption::{at, by_priority, gone, of, preempts, seconds, see};
use crate::snapshots::twin;
use trellis_scheduler::{
    Engine, Gang, GroupName, NodeName, Queue, QueueName, Stop, Topology, TopologyLevel,
    TopologyName, TopologyRequest, WaitReason,
};

pub fn nodes(names: &[&str]) -> Vec<NodeName> {
    names.iter().map(|name| NodeName::new(*name)).collect()
}

/// A gang on as many nodes as it has pods, starting with `n00`; its pods are seen.
pub fn running(nodes: usize, pods: u32) -> (Engine, Gang) {
    let mut engine = engine(gpu_nodes(nodes));
    let gang = of(0, "w", pods);
    engine.apply_gang(gang.clone());
    assert_eq!(at(&mut engine, seconds(0)), ["+w"]);
    see(&mut engine, &gang);
    (engine, gang)
}

pub fn placed(engine: &Engine, name: &str) -> String {
    shown(&engine.placement(&id(name)).unwrap())
}

#[test]
fn room_that_its_pods_leave_is_held_but_where_it_is_not_kept() {
    let (mut engine, gang) = running(2, 2);
    assert!(engine.keep_gang(&id("w"), &nodes(&["n01"]), seconds(120)));
    engine.apply_gang(of(9, "other", 1));
    // Its pods still exist, and count once.
    assert_eq!(at(&mut engine, seconds(1)), ["-other InsufficientCapacity"]);
    assert_eq!(
        (free(&engine, "n00", GPU), free(&engine, "n01", GPU)),
        (0, 0)
    );
    gone(&mut engine, &gang);
    assert_eq!(
        (free(&engine, "n00", GPU), free(&engine, "n01", GPU)),
        (0, 8)
    );
    assert_eq!(at(&mut engine, seconds(2)), ["+other"]);
    assert_eq!(placed(&engine, "other"), "worker: n01*1");
}

#[test]
fn what_survives_goes_back_to_its_node_and_the_lost_rank_elsewhere() {
    let (mut engine, gang) = running(3, 3);
    engine.keep_gang(&id("w"), &nodes(&["n01"]), seconds(120));
    engine.delete_node(&NodeName::new("n01"));
    gone(&mut engine, &gang);
    engine.apply_node(gpu_node("n03", 8));
    // The best fit for all pods would be elsewhere.
    engine.apply_node(gpu_node("a", 24));
    engine.apply_gang(Gang {
        excluded_nodes: nodes(&["n01", "a"]),
        ..gang
    });
    assert_eq!(at(&mut engine, seconds(1)), ["+w"]);
    assert_eq!(placed(&engine, "w"), "worker: n00*1 n03*1 n02*1");
    for node in ["n00", "n02", "n03"] {
        assert_eq!(free(&engine, node, GPU), 0);
    }
    assert_eq!(engine.next_wakeup(), None);
}

#[test]
fn it_goes_back_though_it_would_pack_better_elsewhere() {
    let gang = workers("w", 2, gpu(1, 3));
    let mut anew = engine([gpu_node("n00", 8), gpu_node("n01", 6)]);
    assert_eq!(place(&mut anew, &gang), "worker: n01*2");
    let mut engine = engine([gpu_node("n00", 8)]);
    engine.apply_gang(gang.clone());
    at(&mut engine, seconds(0));
    engine.keep_gang(&id("w"), &[], seconds(120));
    engine.apply_node(gpu_node("n01", 6));
    engine.apply_gang(gang);
    at(&mut engine, seconds(1));
    assert_eq!(placed(&engine, "w"), "worker: n00*2");
}

#[test]
fn it_is_not_tried_before_it_is_applied_and_then_though_nothing_has_changed() {
    let (mut engine, gang) = running(1, 1);
    engine.keep_gang(&id("w"), &[], seconds(120));
    gone(&mut engine, &gang);
    assert!(engine.cycle(seconds(1)).is_empty());
    assert_eq!(engine.waiting_gangs(), 0);
    assert_eq!(engine.explain(&id("w"), seconds(1)), None);
    engine.apply_gang(gang);
    assert_eq!(at(&mut engine, seconds(1)), ["+w"]);
}

#[test]
fn it_says_what_it_waits_for_and_its_place_stays_kept() {
    let (mut engine, gang) = running(2, 2);
    engine.keep_gang(&id("w"), &nodes(&["n01"]), seconds(120));
    gone(&mut engine, &gang);
    engine.delete_node(&NodeName::new("n01"));
    engine.apply_gang(Gang {
        excluded_nodes: nodes(&["n01"]),
        ..gang
    });
    assert_eq!(at(&mut engine, seconds(1)), ["-w ExceedsCluster"]);
    engine.apply_gang(of(9, "other", 1));
    assert_eq!(at(&mut engine, seconds(2)), ["-other InsufficientCapacity"]);
    engine.apply_node(gpu_node("n02", 4));
    let told = engine.explain(&id("w"), seconds(2)).unwrap();
    assert_eq!(told.reason, WaitReason::ExceedsCluster);
    engine.apply_node(gpu_node("n02", 8));
    assert_eq!(
        at(&mut engine, seconds(3)),
        ["+other", "-w InsufficientCapacity"]
    );
    assert_eq!(placed(&engine, "other"), "worker: n02*1");
    // The gang lacks one node, and not two.
    let told = engine.explain(&id("w"), seconds(3)).unwrap();
    let change = told.change.as_ref().unwrap().to_string();
    assert!(
        change.contains("n02") && !change.contains("n00"),
        "{change}"
    );
    engine.apply_node(gpu_node("n03", 8));
    assert_eq!(at(&mut engine, seconds(4)), ["+w"]);
    assert_eq!(placed(&engine, "w"), "worker: n00*1 n03*1");
}

/// Everything is given back, however the keeping ends.
#[test]
fn it_is_given_back_in_time_and_with_its_gang_and_its_queue() {
    type End = fn(&mut Engine);
    let ends: [(&str, End); 5] = [
        ("until", |_| {}),
        ("deleted", |engine| engine.delete_gang(&id("w"))),
        ("released", |engine| {
            engine.release_gang(&id("w"), Some(seconds(900)));
        }),
        ("stopped", |engine| {
            engine.apply_queue(Queue {
                stop: Stop::Hold,
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
            ..of(0, "w", 1)
        };
        engine.apply_gang(gang.clone());
        engine.cycle(seconds(0));
        see(&mut engine, &gang);
        engine.keep_gang(&id("w"), &[], seconds(120));
        gone(&mut engine, &gang);
        engine.apply_gang(of(0, "other", 1));
        at(&mut engine, seconds(119));
        assert_eq!(engine.next_wakeup(), Some(seconds(120)), "{what}");
        assert_eq!(free(&engine, "n00", GPU), 0, "{what}");
        end(&mut engine);
        let now = if what == "until" { 120 } else { 119 };
        let said = at(&mut engine, seconds(now));
        assert_eq!(said[0], "+other", "{what}");
        assert!(
            engine.queue_usage(&QueueName::new("q")).is_empty(),
            "{what}"
        );
        engine.delete_gang(&id("other"));
        assert_eq!(free(&engine, "n00", GPU), 8, "{what}");
    }
}

#[test]
fn who_has_no_place_has_none_to_keep() {
    let mut engine = by_priority(1);
    assert!(!engine.keep_gang(&id("unknown"), &[], seconds(9)));
    engine.apply_gang(of(0, "low", 1));
    assert!(!engine.keep_gang(&id("low"), &[], seconds(9)));
    engine.cycle(seconds(0));
    engine.apply_gang(of(1, "high", 1));
    preempts(&mut engine, seconds(1));
    assert!(!engine.keep_gang(&id("low"), &[], seconds(9)), "it leaves");
    assert!(
        !engine.keep_gang(&id("high"), &[], seconds(9)),
        "it follows"
    );
    engine.delete_gang(&id("low"));
    assert_eq!(at(&mut engine, seconds(2)), ["+high"]);
    engine.apply_node(gpu_node("n01", 8));
    engine.apply_gang(Gang {
        surplus: true,
        ..of(0, "surplus", 1)
    });
    assert_eq!(at(&mut engine, seconds(3)), ["+surplus"]);
    assert!(!engine.keep_gang(&id("surplus"), &[], seconds(9)));
    assert_eq!(engine.placed_gangs(), 2, "nothing is done");
}

#[test]
fn a_pod_that_is_seen_late_counts_once() {
    let mut engine = engine(gpu_nodes(2));
    let gang = of(0, "w", 1);
    engine.apply_gang(gang.clone());
    engine.cycle(seconds(0));
    engine.keep_gang(&id("w"), &[], seconds(120));
    assert_eq!(free(&engine, "n00", GPU), 0, "it may be there");
    pod(&mut engine, "team/w-worker-0", "n00", gpu(1, 8));
    assert_eq!(free(&engine, "n00", GPU), 0);
    engine.delete_pod(&worker("w", 0));
    assert_eq!(free(&engine, "n00", GPU), 0);
    // The pod is not as planned: the seen pod counts.
    pod(&mut engine, "team/w-worker-0", "n00", gpu(1, 5));
    assert_eq!(free(&engine, "n00", GPU), 3);
    engine.delete_gang(&id("w"));
    assert_eq!(free(&engine, "n00", GPU), 3);
    engine.delete_pod(&worker("w", 0));
    assert_eq!(free(&engine, "n00", GPU), 8);
}

#[test]
fn a_rank_that_has_failed_keeps_its_node_too_if_nobody_is_there() {
    for taken in [false, true] {
        let (mut engine, gang) = running(2, 2);
        engine.apply_node(gpu_node("n02", 8));
        engine.delete_pod(&worker("w", 0));
        if taken {
            pod(&mut engine, "x/y", "n00", gpu(1, 1));
        }
        engine.keep_gang(&id("w"), &[], seconds(120));
        gone(&mut engine, &gang);
        assert_eq!(free(&engine, "n00", GPU), if taken { 7 } else { 0 });
        engine.apply_gang(gang);
        assert_eq!(at(&mut engine, seconds(1)), ["+w"]);
        let expected = if taken {
            "worker: n02*1 n01*1"
        } else {
            "worker: n00*1 n01*1"
        };
        assert_eq!(placed(&engine, "w"), expected);
    }
}

#[test]
fn the_lost_rank_finds_its_place_in_the_domain_of_the_others() {
    let racks = ["a", "b", "b", "a", "b"];
    let all = (0..5)
        .zip(racks)
        .map(|(at, rack)| label(gpu_node(&format!("n{at:02}"), 8), "rack", rack));
    let mut engine = engine(all);
    engine.apply_topology(Topology {
        name: TopologyName::new("network"),
        levels: vec![TopologyLevel::of_label("rack")],
    });
    let gang = Gang {
        topology: Some(TopologyRequest::required("rack")),
        excluded_nodes: nodes(&["n03"]),
        ..of(0, "w", 2)
    };
    engine.apply_gang(gang.clone());
    at(&mut engine, seconds(0));
    assert_eq!(placed(&engine, "w"), "worker: n01*1 n02*1");
    engine.keep_gang(&id("w"), &nodes(&["n02"]), seconds(120));
    engine.apply_gang(Gang {
        excluded_nodes: nodes(&["n02"]),
        ..gang
    });
    // The other rack is free, and first by name.
    assert_eq!(at(&mut engine, seconds(1)), ["+w"]);
    assert_eq!(placed(&engine, "w"), "worker: n01*1 n04*1");
}

#[test]
fn it_is_written_down_and_read_again() {
    let (mut engine, gang) = running(3, 3);
    engine.delete_pod(&worker("w", 2));
    engine.keep_gang(&id("w"), &nodes(&["n01"]), seconds(120));
    engine.delete_pod(&worker("w", 0));
    let mut again = twin(&engine).unwrap();
    for engine in [&mut engine, &mut again] {
        engine.apply_gang(of(9, "other", 1));
        assert_eq!(at(engine, seconds(1)), ["-other InsufficientCapacity"]);
        engine.delete_pod(&worker("w", 1));
        assert_eq!(at(engine, seconds(2)), ["+other"]);
        assert_eq!(free(engine, "n00", GPU), 0);
        assert_eq!(free(engine, "n02", GPU), 0);
        engine.apply_gang(gang.clone());
        engine.apply_node(gpu_node("n03", 8));
        assert_eq!(at(engine, seconds(3)), ["+w"]);
        assert_eq!(placed(engine, "w"), "worker: n00*1 n03*1 n02*1");
    }
    // A snapshot without kept places is read as before.
    let mut text = serde_json::to_value(engine.snapshot()).unwrap();
    let gang = &mut text["gangs"][0];
    assert!(gang.get("kept").is_none() && gang.get("idle").is_none());
    text["gangs"] = serde_json::json!([]);
    serde_json::from_value::<trellis_scheduler::Snapshot>(text).unwrap();
}

#[test]
fn a_group_that_has_grown_keeps_the_ranks_it_had() {
    let mut engine = engine(gpu_nodes(3));
    let two = |count| {
        gang(
            "w",
            vec![group("a", 1, gpu(1, 4)), group("b", count, gpu(1, 4))],
        )
    };
    engine.apply_gang(two(2));
    at(&mut engine, seconds(0));
    let before = engine.placement(&id("w")).unwrap();
    engine.keep_gang(&id("w"), &[], seconds(120));
    engine.apply_gang(Gang {
        runtime: Some(Duration::from_secs(9)),
        ..two(4)
    });
    assert_eq!(at(&mut engine, seconds(1)), ["+w"]);
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
