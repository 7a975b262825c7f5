//! Who makes room for whom: cases that a user of Kueue or Slurm would know.

use std::time::Duration;

use crate::common::*;
use trellis_scheduler::{
    Because, BorrowWithin, Decision, Engine, Gang, NodeName, Placement, Preemption, Queue,
    QueueName, Quota, Reclaim, ResourceName, Stop, Time, Topology, TopologyMode, TopologyName,
    TopologyRequest, Victim, WithinQueue,
};

const LOWER: Preemption = Preemption {
    within_queue: WithinQueue::LowerPriority,
    reclaim: Reclaim::Never,
    borrow_within: BorrowWithin::Never,
};

const RECLAIM: Preemption = Preemption {
    within_queue: WithinQueue::Never,
    reclaim: Reclaim::Any,
    borrow_within: BorrowWithin::Never,
};

fn seconds(seconds: i64) -> Time {
    ms(seconds * 1_000)
}

/// A gang of so many pods with 8 GPUs each, which is a node each.
fn of(priority: i32, name: &str, nodes: u32) -> Gang {
    Gang {
        priority,
        ..workers(name, nodes, gpu(1, 8))
    }
}

/// Nodes with 8 GPUs, and a default queue in which priority preempts.
fn by_priority(nodes: usize) -> Engine {
    let mut engine = engine(gpu_nodes(nodes));
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    engine
}

fn at(engine: &mut Engine, time: Time) -> Vec<String> {
    said(&engine.cycle(time))
}

/// All pods of a placed gang are seen where they are planned.
fn see(engine: &mut Engine, gang: &Gang) {
    let placement = engine.placement(&gang.id).unwrap();
    for (name, index, node) in placement.iter() {
        let group = gang.groups.iter().find(|g| g.name == *name).unwrap();
        engine.apply_pod(
            gang.pod_key(group, index),
            node.clone(),
            group.request.clone(),
        );
    }
}

/// The pods of a gang are gone.
fn gone(engine: &mut Engine, gang: &Gang) {
    for group in &gang.groups {
        for index in 0..group.count {
            engine.delete_pod(&gang.pod_key(group, index));
        }
    }
}

/// The only decision, a preemption: where, and who leaves why.
fn preempts(engine: &mut Engine, now: Time) -> (Placement, Vec<Victim>) {
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
fn a_gang_of_higher_priority_follows_one_of_lower() {
    let mut engine = by_priority(2);
    let low = of(0, "low", 2);
    engine.apply_gang(low.clone());
    assert_eq!(at(&mut engine, seconds(0)), ["+low"]);
    see(&mut engine, &low);
    engine.apply_gang(of(1, "high", 1));
    let (place, victims) = preempts(&mut engine, seconds(10));
    assert_eq!(shown(&place), "worker: n00*1");
    assert_eq!(
        victims,
        [Victim {
            gang: id("low"),
            because: Because::LaterInQueue,
            lost_device_seconds: 160,
        }]
    );
    // Nothing is put on what the victim still holds, nor where the other follows.
    engine.apply_gang(of(0, "next", 1));
    assert_eq!(at(&mut engine, seconds(11)), ["-next InsufficientCapacity"]);
    engine.release_gang(&id("low"), None);
    assert_eq!(at(&mut engine, seconds(12)), ["-low InsufficientCapacity"]);
    engine.delete_pod(&worker("low", 1));
    assert_eq!(
        at(&mut engine, seconds(13)),
        ["+next"],
        "what is not needed is there for others; the victim needs two nodes"
    );
    engine.delete_pod(&worker("low", 0));
    assert_eq!(at(&mut engine, seconds(14)), ["+high"]);
    assert_eq!(
        shown(&engine.placement(&id("high")).unwrap()),
        shown(&place)
    );
    assert_eq!(free(&engine, "n00", GPU), 0);
}

#[test]
fn nobody_leaves_where_that_would_not_help() {
    let mut engine = by_priority(2);
    engine.apply_gang(of(0, "low", 1));
    engine.apply_gang(of(5, "high", 1));
    assert_eq!(at(&mut engine, seconds(0)).len(), 2);
    engine.apply_gang(of(3, "middle", 2));
    assert_eq!(
        at(&mut engine, seconds(1)),
        ["-middle InsufficientCapacity"]
    );
    // The one in the way ends: now the other makes room.
    engine.delete_gang(&id("high"));
    assert_eq!(at(&mut engine, seconds(2)), ["!middle low"]);
}

#[test]
fn equals_are_left_alone_unless_the_queue_says_otherwise() {
    let mut engine = by_priority(1);
    let newer = Gang {
        submitted: ms(5),
        ..of(0, "newer", 1)
    };
    engine.apply_gang(newer);
    assert_eq!(at(&mut engine, seconds(0)), ["+newer"]);
    engine.apply_gang(of(0, "older", 1));
    assert_eq!(at(&mut engine, seconds(1)), ["-older InsufficientCapacity"]);
    engine.apply_queue(Queue {
        preemption: Preemption {
            within_queue: WithinQueue::LowerOrNewerEqualPriority,
            ..LOWER
        },
        ..Queue::new(QueueName::new("default"))
    });
    assert_eq!(at(&mut engine, seconds(2)), ["!older newer"]);
}

#[test]
fn the_lowest_priority_goes_first_and_then_what_costs_least() {
    let mut engine = by_priority(4);
    for (at_second, gang) in [
        (0, of(1, "dear", 1)),
        (50, of(1, "cheap", 1)),
        (60, of(2, "middle", 1)),
        (70, of(1, "saved", 1)),
    ] {
        let name = gang.id.clone();
        engine.apply_gang(gang);
        assert_eq!(engine.cycle(seconds(at_second)).len(), 1, "{name}");
    }
    engine.apply_gang(of(9, "one", 1));
    let (_, victims) = preempts(&mut engine, seconds(100));
    assert_eq!(victims[0].gang, id("saved"), "the newest has done least");
    engine.apply_gang(of(9, "two", 1));
    // Its work was safe a moment ago.
    engine.checkpointed(&id("dear"), seconds(99));
    let (_, victims) = preempts(&mut engine, seconds(100));
    assert_eq!(
        (&victims[0].gang, victims[0].lost_device_seconds),
        (&id("dear"), 8)
    );
    engine.apply_gang(of(9, "three", 1));
    let (_, victims) = preempts(&mut engine, seconds(100));
    assert_eq!(victims[0].gang, id("cheap"), "priority counts before price");
    engine.apply_gang(of(9, "four", 1));
    assert_eq!(at(&mut engine, seconds(100)), ["!four middle"]);
}

#[test]
fn no_more_leave_than_must() {
    let mut engine = by_priority(3);
    // Single GPUs on one node, a whole node, and one that is free.
    for i in 0..8 {
        engine.apply_gang(workers(&format!("s{i}"), 1, gpu(1, 1)));
    }
    engine.cycle(seconds(0));
    engine.apply_gang(of(0, "whole", 1));
    assert_eq!(at(&mut engine, seconds(1)), ["+whole"]);
    engine.apply_gang(of(1, "two", 2));
    // One leaves whole; to free the other node eight would have to.
    assert_eq!(at(&mut engine, seconds(2)), ["!two whole"]);
}

#[test]
fn a_gang_that_is_kept_is_no_victim() {
    for (gang, now, expected) in [
        (
            Gang {
                preemptible: false,
                ..of(0, "low", 1)
            },
            1,
            "-high InsufficientCapacity",
        ),
        (
            Gang {
                min_runtime: Duration::from_secs(60),
                ..of(0, "low", 1)
            },
            59,
            "-high InsufficientCapacity",
        ),
        (
            Gang {
                min_runtime: Duration::from_secs(60),
                ..of(0, "low", 1)
            },
            60,
            "!high low",
        ),
    ] {
        let mut engine = by_priority(1);
        engine.apply_gang(gang);
        engine.cycle(seconds(0));
        engine.apply_gang(of(9, "high", 1));
        assert_eq!(at(&mut engine, seconds(now)), [expected]);
    }
}

#[test]
fn time_alone_makes_a_victim_and_the_engine_wakes_for_it() {
    let mut engine = by_priority(1);
    engine.apply_gang(Gang {
        min_runtime: Duration::from_secs(600),
        ..of(0, "low", 1)
    });
    engine.cycle(seconds(0));
    engine.apply_queue(Queue {
        preemption: LOWER,
        max_min_runtime: Some(Duration::from_secs(60)),
        ..Queue::new(QueueName::new("default"))
    });
    engine.apply_gang(of(9, "high", 1));
    assert_eq!(at(&mut engine, seconds(1)), ["-high InsufficientCapacity"]);
    assert_eq!(engine.next_wakeup(), Some(seconds(60)), "the queue caps it");
    assert_eq!(at(&mut engine, seconds(60)), ["!high low"]);
}

fn gpus(nominal: i64) -> Quota {
    Quota {
        nominal,
        ..Quota::default()
    }
}

fn below(name: &str, parent: Option<&str>, nominal: i64, preemption: Preemption) -> Queue {
    let plenty = gpus(i64::MAX >> 8);
    let quotas = [
        (ResourceName::new(GPU), gpus(nominal)),
        (ResourceName::new("cpu"), plenty),
    ];
    Queue {
        parent: parent.map(QueueName::new),
        preemption,
        ..Queue::new(QueueName::new(name)).with_quotas(quotas)
    }
}

/// Teams `a` and `b` own a node with 8 GPUs each, below `all`.
fn two_teams(preemption: Preemption) -> Engine {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(below("all", None, 0, Preemption::default()));
    engine.apply_queue(below("a", Some("all"), 8, preemption));
    engine.apply_queue(below("b", Some("all"), 8, preemption));
    engine
}

fn small(queue: &str, priority: i32, name: &str, pods: u32) -> Gang {
    Gang {
        priority,
        queue: QueueName::new(queue),
        ..workers(name, pods, gpu(1, 1))
    }
}

#[test]
fn a_team_takes_back_what_it_lent_and_no_more() {
    let mut engine = two_teams(RECLAIM);
    for (name, pods) in [("a1", 8), ("a2", 4), ("a3", 4)] {
        engine.apply_gang(small("a", 5, name, pods));
    }
    assert_eq!(at(&mut engine, seconds(0)), ["+a1", "+a2", "+a3"]);
    engine.apply_gang(small("b", 0, "b1", 4));
    let (_, victims) = preempts(&mut engine, seconds(5));
    assert_eq!(
        (victims.len(), victims[0].because),
        (1, Because::Borrows),
        "priority does not protect what is borrowed"
    );
    assert_ne!(victims[0].gang, id("a1"));
    // Still four of its own are lent.
    engine.apply_gang(small("b", 0, "b2", 4));
    let (_, victims) = preempts(&mut engine, seconds(6));
    assert_ne!(victims[0].gang, id("a1"));
    // Beyond its own it has nothing to ask.
    engine.apply_gang(small("b", 9, "b3", 1));
    assert_eq!(at(&mut engine, seconds(7)), ["-b3 QuotaExceeded"]);
}

#[test]
fn who_was_preempted_and_borrows_preempts_nobody() {
    let both = Preemption {
        reclaim: Reclaim::Any,
        borrow_within: BorrowWithin::LowerPriority { max_priority: None },
        ..LOWER
    };
    let mut engine = two_teams(both);
    engine.apply_gang(small("a", 5, "a1", 12));
    engine.cycle(seconds(0));
    engine.apply_gang(small("b", 0, "b1", 8));
    assert_eq!(at(&mut engine, seconds(1)), ["!b1 a1"]);
    engine.release_gang(&id("a1"), None);
    assert_eq!(at(&mut engine, seconds(2)), ["+b1", "-a1 QuotaExceeded"]);
    for second in 3..9 {
        assert!(engine.cycle(seconds(second)).is_empty());
    }
}

#[test]
fn what_would_be_borrowed_is_taken_from_lower_priority_alone() {
    let borrow = |max_priority| Preemption {
        within_queue: WithinQueue::Never,
        reclaim: Reclaim::Never,
        borrow_within: BorrowWithin::LowerPriority { max_priority },
    };
    for (most, priority, expected) in [
        (None, 4, vec!["!a1 c1"]),
        (Some(3), 4, vec!["-a1 QuotaExceeded"]),
        (Some(4), 4, vec!["!a1 c1"]),
        (None, 5, vec!["-a1 QuotaExceeded"]),
    ] {
        let mut engine = engine(gpu_nodes(2));
        engine.apply_queue(below("all", None, 16, Preemption::default()));
        engine.apply_queue(below("a", Some("all"), 0, borrow(most)));
        engine.apply_queue(below("c", Some("all"), 0, borrow(most)));
        engine.apply_gang(small("c", priority, "c1", 12));
        engine.cycle(seconds(0));
        engine.apply_gang(small("a", 5, "a1", 8));
        assert_eq!(at(&mut engine, seconds(1)), expected);
    }
}

#[test]
fn a_queue_without_quota_guarantees_nothing() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(below("team", None, 8, RECLAIM));
    engine.apply_gang(of(9, "open", 1));
    engine.cycle(seconds(0));
    engine.apply_gang(small("team", 0, "t1", 8));
    assert_eq!(at(&mut engine, seconds(1)), ["!t1 open"]);
}

#[test]
fn what_is_kept_for_good_is_kept_within_quota_only() {
    let mut engine = two_teams(RECLAIM);
    engine.apply_gang(Gang {
        preemptible: false,
        ..small("a", 5, "a1", 12)
    });
    engine.cycle(seconds(0));
    engine.apply_gang(small("b", 0, "b1", 8));
    assert_eq!(at(&mut engine, seconds(1)), ["!b1 a1"]);
}

#[test]
fn a_drained_queue_lets_go_of_everything() {
    let mut engine = by_priority(2);
    engine.apply_gang(Gang {
        preemptible: false,
        ..of(0, "one", 1)
    });
    engine.apply_gang(of(1, "two", 1));
    engine.cycle(seconds(0));
    engine.apply_queue(Queue {
        stop: Stop::HoldAndDrain,
        ..Queue::new(QueueName::new("default"))
    });
    assert_eq!(at(&mut engine, seconds(1)), ["~one", "~two"]);
    engine.release_gang(&id("one"), None);
    assert_eq!(at(&mut engine, seconds(2)), ["-one QueueStopped"]);
    assert_eq!(free(&engine, "n01", GPU), 8);
    engine.apply_queue(Queue::new(QueueName::new("default")));
    assert_eq!(at(&mut engine, seconds(3)), ["+one"]);
}

#[test]
fn a_victim_that_stays_after_all_has_its_quota_and_is_left_alone() {
    let mut engine = two_teams(RECLAIM);
    engine.apply_gang(small("a", 0, "a1", 12));
    engine.cycle(seconds(0));
    engine.apply_gang(small("b", 0, "b1", 8));
    assert_eq!(at(&mut engine, seconds(1)), ["!b1 a1"]);
    assert!(engine.queue_usage(&QueueName::new("a")).is_empty());
    engine.release_gang(&id("b1"), None);
    engine.stay(&id("a1"), seconds(30));
    assert_eq!(
        engine.queue_usage(&QueueName::new("a"))[&ResourceName::new(GPU)],
        12
    );
    assert_eq!(at(&mut engine, seconds(2)), ["-b1 QuotaExceeded"]);
    assert_eq!(engine.next_wakeup(), Some(seconds(30)));
    assert_eq!(at(&mut engine, seconds(30)), ["!b1 a1"]);
}

#[test]
fn a_place_that_is_lost_while_it_is_waited_for_is_sought_anew() {
    let mut engine = by_priority(3);
    for name in ["a", "b", "c"] {
        engine.apply_gang(of(0, name, 1));
    }
    engine.cycle(seconds(0));
    engine.apply_gang(of(1, "high", 1));
    let (place, victims) = preempts(&mut engine, seconds(1));
    let node = place.iter().next().unwrap().2.clone();
    engine.delete_node(&node);
    // Its node is gone: another is made free, the first victim goes on leaving.
    let (next, others) = preempts(&mut engine, seconds(2));
    assert_ne!(next.iter().next().unwrap().2, &node);
    assert_ne!(others[0].gang, victims[0].gang);
}

#[test]
fn someone_else_on_the_place_does_not_hold_it_up_for_ever() {
    let mut engine = by_priority(1);
    let low = of(0, "low", 1);
    engine.apply_gang(low.clone());
    engine.cycle(seconds(0));
    see(&mut engine, &low);
    engine.apply_gang(of(1, "high", 1));
    preempts(&mut engine, seconds(1));
    engine.apply_pod(
        trellis_scheduler::PodKey::new("x/foreign"),
        NodeName::new("n00"),
        gpu(1, 2),
    );
    engine.release_gang(&id("low"), None);
    assert_eq!(at(&mut engine, seconds(2)), ["-low InsufficientCapacity"]);
    gone(&mut engine, &low);
    assert_eq!(at(&mut engine, seconds(3)), ["-high InsufficientCapacity"]);
    engine.delete_pod(&trellis_scheduler::PodKey::new("x/foreign"));
    assert_eq!(at(&mut engine, seconds(4)), ["+high"]);
}

#[test]
fn a_new_leader_goes_on_with_what_was_nominated() {
    let mut engine = by_priority(1);
    let low = of(0, "low", 1);
    let high = of(1, "high", 1);
    let place: Placement = [(
        trellis_scheduler::GroupName::new("worker"),
        vec![(NodeName::new("n00"), 1)],
    )]
    .into_iter()
    .collect();
    engine.advance(seconds(9));
    engine.restore_gang(low.clone(), place.clone(), seconds(0));
    engine.restore_nomination(high, place, &[id("low"), id("unknown")]);
    assert!(engine.cycle(seconds(10)).is_empty());
    engine.delete_gang(&id("low"));
    assert_eq!(at(&mut engine, seconds(11)), ["+high"]);
}

#[test]
fn a_trial_tells_who_would_leave_and_leaves_no_trace() {
    let mut engine = by_priority(1);
    engine.apply_gang(of(0, "low", 1));
    engine.cycle(seconds(0));
    let high = of(1, "high", 1);
    let first = engine.trial(&high, seconds(1)).unwrap();
    assert_eq!(first.victims[0].gang, id("low"));
    assert_eq!(engine.trial(&high, seconds(1)).unwrap(), first);
    assert_eq!(free(&engine, "n00", GPU), 0);
    assert!(engine.cycle(seconds(1)).is_empty());
}

/// There is room for so many pods once all lower ones are gone, but not in one rack:
/// whatever becomes free may change that, however little it is.
#[test]
fn who_could_make_room_too_little_wakes_when_any_becomes_free() {
    let racks = ["a", "a", "b", "b"];
    let nodes = (0..4)
        .zip(racks)
        .map(|(at, rack)| label(gpu_node(&format!("n{at:02}"), 8), "rack", rack));
    let mut engine = engine(nodes);
    engine.apply_topology(Topology {
        name: TopologyName::new("network"),
        levels: vec!["rack".to_owned()],
    });
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    for node in ["n00", "n02"] {
        pod(&mut engine, &format!("x/{node}"), node, gpu(1, 8));
    }
    for name in ["low-a", "low-b"] {
        engine.apply_gang(of(0, name, 1));
    }
    assert_eq!(at(&mut engine, seconds(0)), ["+low-a", "+low-b"]);
    engine.apply_gang(Gang {
        topology: Some(TopologyRequest {
            level: "rack".to_owned(),
            mode: TopologyMode::Required,
        }),
        ..of(1, "high", 2)
    });
    assert_eq!(at(&mut engine, seconds(1)), ["-high InsufficientCapacity"]);
    engine.delete_pod(&trellis_scheduler::PodKey::new("x/n00"));
    assert_eq!(at(&mut engine, seconds(2)), ["!high low-a"]);
}
