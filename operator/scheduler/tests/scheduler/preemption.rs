//! Tests of preemption within a queue: cases that a user of Kueue or Slurm would know.

pub(super) mod claims;
pub(super) mod departures;
pub(super) mod fair_share;
pub(super) mod fair_share_cases;
pub(super) mod model;
pub(super) mod queues;
pub(super) mod reclaim;
pub(super) mod reclaim_and_heads;
pub(super) mod victim_sets;

use std::time::Duration;

use crate::common::*;
use trellis_scheduler::{
    BorrowWithinPolicy, Decision, Engine, Gang, NodeName, Placement, PodKey, PreemptionPolicy,
    PreemptionReason, Queue, QueueName, ReclaimPolicy, Time, Topology, TopologyLevel, TopologyName,
    TopologyRequest, Victim, WithinQueuePolicy,
};

pub const LOWER: PreemptionPolicy = PreemptionPolicy {
    within_queue: WithinQueuePolicy::LowerPriority,
    reclaim: ReclaimPolicy::Never,
    borrow_within: BorrowWithinPolicy::Never,
};

pub fn seconds(seconds: i64) -> Time {
    ms(seconds * 1_000)
}

/// Returns a gang of this many pods with 8 GPUs each, so each pod needs one node.
pub fn priority_gang(priority: i32, name: &str, nodes: u32) -> Gang {
    Gang {
        priority,
        ..workers(name, nodes, gpu(1, 8))
    }
}

/// Returns an engine with nodes of 8 GPUs, and a default queue in which priority preempts.
pub fn engine_with_priority_preemption(nodes: usize) -> Engine {
    let mut engine = engine(gpu_nodes(nodes));
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    engine
}

pub fn run_cycle_at(engine: &mut Engine, time: Time) -> Vec<String> {
    format_decisions(&engine.cycle(time))
}

/// Adds all pods of a placed gang on their planned nodes.
pub fn apply_pods_of(engine: &mut Engine, gang: &Gang) {
    let placement = engine.placement(&gang.id).unwrap();
    for (name, index, node) in placement.iter() {
        let (group, key) = gang.member_pod(name, index).unwrap();
        engine.apply_pod(key, node.clone(), group.request.clone());
    }
}

/// Deletes the pods of a gang.
pub fn delete_pods_of(engine: &mut Engine, gang: &Gang) {
    for group in &gang.groups {
        for index in 0..group.count {
            engine.delete_pod(&gang.pod_key(group, index));
        }
    }
}

/// Runs a cycle whose only decision must be a preemption. Returns its placement and victims.
pub fn expect_preemption(engine: &mut Engine, now: Time) -> (Placement, Vec<Victim>) {
    match engine.cycle(now).as_slice() {
        [
            Decision::Preempt {
                placement, victims, ..
            },
        ] => (placement.clone(), victims.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn gang_of_higher_priority_replaces_a_gang_of_lower_priority() {
    let mut engine = engine_with_priority_preemption(2);
    let low = priority_gang(0, "low", 2);
    engine.apply_gang(low.clone());
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+low"]);
    apply_pods_of(&mut engine, &low);
    engine.apply_gang(priority_gang(1, "high", 1));
    let (place, victims) = expect_preemption(&mut engine, seconds(10));
    assert_eq!(format_placement(&place), "worker: n00*1");
    assert_eq!(
        victims,
        [Victim {
            gang: id("low"),
            reason: PreemptionReason::LaterInQueue,
            lost_device_seconds: 160,
        }]
    );
    // The engine places no pod in the room of the victim, which is also the room of the preemptor.
    engine.apply_gang(priority_gang(0, "next", 1));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(11)),
        ["-next InsufficientCapacity"]
    );
    engine.release_gang(&id("low"), None);
    assert_eq!(
        run_cycle_at(&mut engine, seconds(12)),
        ["-low InsufficientCapacity"]
    );
    engine.delete_pod(&worker_key("low", 1));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(13)),
        ["+next"],
        "what is not needed is there for others; the victim needs two nodes"
    );
    engine.delete_pod(&worker_key("low", 0));
    assert_eq!(run_cycle_at(&mut engine, seconds(14)), ["+high"]);
    assert_eq!(
        format_placement(&engine.placement(&id("high")).unwrap()),
        format_placement(&place)
    );
    assert_eq!(free_amount(&engine, "n00", GPU), 0);
}

#[test]
fn no_gang_is_evicted_without_benefit() {
    let mut engine = engine_with_priority_preemption(2);
    engine.apply_gang(priority_gang(0, "low", 1));
    engine.apply_gang(priority_gang(5, "high", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)).len(), 2);
    engine.apply_gang(priority_gang(3, "middle", 2));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-middle InsufficientCapacity"]
    );
    // The gang that blocked the room ends, so the second gang now makes room.
    engine.delete_gang(&id("high"));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["!middle low"]);
}

#[test]
fn equal_priority_is_preempted_only_if_the_queue_allows_it() {
    let mut engine = engine_with_priority_preemption(1);
    let newer = Gang {
        submitted: ms(5),
        ..priority_gang(0, "newer", 1)
    };
    engine.apply_gang(newer);
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+newer"]);
    engine.apply_gang(priority_gang(0, "older", 1));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-older InsufficientCapacity"]
    );
    engine.apply_queue(Queue {
        preemption: PreemptionPolicy {
            within_queue: WithinQueuePolicy::LowerOrNewerEqualPriority,
            ..LOWER
        },
        ..Queue::new(QueueName::new("default"))
    });
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["!older newer"]);
}

#[test]
fn lowest_priority_is_evicted_first_then_the_cheapest() {
    let mut engine = engine_with_priority_preemption(4);
    for (at_second, gang) in [
        (0, priority_gang(1, "dear", 1)),
        (50, priority_gang(1, "cheap", 1)),
        (60, priority_gang(2, "middle", 1)),
        (70, priority_gang(1, "saved", 1)),
    ] {
        let name = gang.id.clone();
        engine.apply_gang(gang);
        assert_eq!(engine.cycle(seconds(at_second)).len(), 1, "{name}");
    }
    engine.apply_gang(priority_gang(9, "one", 1));
    let (_, victims) = expect_preemption(&mut engine, seconds(100));
    assert_eq!(victims[0].gang, id("saved"), "the newest has done least");
    engine.apply_gang(priority_gang(9, "two", 1));
    // The gang saved its work a moment ago.
    engine.record_checkpoint(&id("dear"), seconds(99));
    let (_, victims) = expect_preemption(&mut engine, seconds(100));
    assert_eq!(
        (&victims[0].gang, victims[0].lost_device_seconds),
        (&id("dear"), 8)
    );
    engine.apply_gang(priority_gang(9, "three", 1));
    let (_, victims) = expect_preemption(&mut engine, seconds(100));
    assert_eq!(victims[0].gang, id("cheap"), "priority counts before price");
    engine.apply_gang(priority_gang(9, "four", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(100)), ["!four middle"]);
}

#[test]
fn no_more_gangs_are_evicted_than_needed() {
    let mut engine = engine_with_priority_preemption(3);
    // One node has gangs of single GPUs, one has a whole gang, and one is free.
    for i in 0..8 {
        engine.apply_gang(workers(&format!("s{i}"), 1, gpu(1, 1)));
    }
    engine.cycle(seconds(0));
    engine.apply_gang(priority_gang(0, "whole", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+whole"]);
    engine.apply_gang(priority_gang(1, "two", 2));
    // One whole gang leaves. To free the node of single GPUs, eight gangs would have to leave.
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["!two whole"]);
}

#[test]
fn protected_gang_is_no_victim() {
    for (gang, now, expected) in [
        (
            Gang {
                preemptible: false,
                ..priority_gang(0, "low", 1)
            },
            1,
            "-high InsufficientCapacity",
        ),
        (
            Gang {
                min_runtime: Duration::from_secs(60),
                ..priority_gang(0, "low", 1)
            },
            59,
            "-high InsufficientCapacity",
        ),
        (
            Gang {
                min_runtime: Duration::from_secs(60),
                ..priority_gang(0, "low", 1)
            },
            60,
            "!high low",
        ),
    ] {
        let mut engine = engine_with_priority_preemption(1);
        engine.apply_gang(gang);
        engine.cycle(seconds(0));
        engine.apply_gang(priority_gang(9, "high", 1));
        assert_eq!(run_cycle_at(&mut engine, seconds(now)), [expected]);
    }
}

#[test]
fn engine_wakes_when_the_protection_of_a_gang_ends() {
    let mut engine = engine_with_priority_preemption(1);
    engine.apply_gang(Gang {
        min_runtime: Duration::from_secs(600),
        ..priority_gang(0, "low", 1)
    });
    engine.cycle(seconds(0));
    engine.apply_queue(Queue {
        preemption: LOWER,
        max_min_runtime: Some(Duration::from_secs(60)),
        ..Queue::new(QueueName::new("default"))
    });
    engine.apply_gang(priority_gang(9, "high", 1));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-high InsufficientCapacity"]
    );
    assert_eq!(engine.next_wakeup(), Some(seconds(60)), "the queue caps it");
    let protected = [(id("low"), seconds(60))];
    assert_eq!(engine.protected_victims(&id("high")), protected);
    assert_eq!(engine.protected_victims(&id("low")), [], "it has its place");
    assert_eq!(run_cycle_at(&mut engine, seconds(60)), ["!high low"]);
}

/// Without all lower gangs there would be room for the pods, but not in one rack. Any resource that
/// becomes free may change that.
#[test]
fn preemptor_without_a_fitting_domain_wakes_when_any_resource_becomes_free() {
    let racks = ["a", "a", "b", "b"];
    let nodes = (0..4)
        .zip(racks)
        .map(|(at, rack)| label(gpu_node(&format!("n{at:02}"), 8), "rack", rack));
    let mut engine = engine(nodes);
    engine.apply_topology(Topology {
        name: TopologyName::new("network"),
        levels: vec![TopologyLevel::from_label("rack")],
    });
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    for node in ["n00", "n02"] {
        apply_pod(&mut engine, &format!("x/{node}"), node, gpu(1, 8));
    }
    for name in ["low-a", "low-b"] {
        engine.apply_gang(priority_gang(0, name, 1));
    }
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+low-a", "+low-b"]);
    engine.apply_gang(Gang {
        topology: Some(TopologyRequest::required("rack")),
        ..priority_gang(1, "high", 2)
    });
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-high InsufficientCapacity"]
    );
    engine.delete_pod(&PodKey::new("x/n00"));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["!high low-a"]);
}

/// Returns the victims' names and the lost work of each.
fn victim_costs(engine: &mut Engine, gang: &Gang, now: Time) -> Vec<(String, u64)> {
    let outlook = engine.try_gang(gang, now).unwrap();
    let named = outlook.victims.iter();
    named
        .map(|v| (v.gang.as_str().to_owned(), v.lost_device_seconds))
        .collect()
}

#[test]
fn repeated_trial_uses_current_costs() {
    let mut engine = engine_with_priority_preemption(3);
    let (a, b) = (priority_gang(0, "a", 1), priority_gang(0, "b", 1));
    let own = |name: &str, lost| vec![(id(name).as_str().to_owned(), lost)];
    engine.apply_gang(a.clone());
    run_cycle_at(&mut engine, seconds(0));
    engine.apply_gang(b.clone());
    engine.apply_gang(priority_gang(5, "high", 1));
    run_cycle_at(&mut engine, seconds(5));
    let asker = priority_gang(1, "asker", 1);
    assert_eq!(victim_costs(&mut engine, &asker, seconds(10)), own("b", 40));
    engine.record_checkpoint(&a.id, seconds(9));
    assert_eq!(victim_costs(&mut engine, &asker, seconds(10)), own("a", 8));
    // A pod of the gang appeared on another node, and moves on while the gang does not change.
    engine.apply_pod(
        worker_key("a", 0),
        NodeName::new("n09"),
        a.groups[0].request.clone(),
    );
    assert_eq!(victim_costs(&mut engine, &asker, seconds(10)), []);
    let placed = engine.placement(&a.id).unwrap();
    let (.., there) = placed.iter().next().unwrap();
    engine.apply_pod(
        worker_key("a", 0),
        there.clone(),
        a.groups[0].request.clone(),
    );
    assert_eq!(victim_costs(&mut engine, &asker, seconds(10)), own("a", 8));
    // Another gang gets the number of the deleted gang.
    engine.delete_gang(&a.id);
    engine.delete_pod(&worker_key("a", 0));
    engine.apply_gang(priority_gang(0, "c", 1));
    run_cycle_at(&mut engine, seconds(12));
    assert_eq!(victim_costs(&mut engine, &asker, seconds(14)), own("c", 16));
}
