//! Tests of what happens to victims, and to their preemptor.

use crate::common::*;
use crate::preemption::{LOWER, at, by_priority, gone, of, preempts, seconds, see};
use crate::preemption_queues::{RECLAIM, small, two_teams};
use trellis_scheduler::{
    Engine, Gang, GroupName, LabelDomain, NodeName, Placement, PodKey, Queue, QueueName,
    ResourceName, Stop, Topology, TopologyLevel, TopologyName, TopologyRequest,
};

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
    // The planned node is gone: another one is freed, and the first victim goes on leaving.
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
    engine.apply_pod(PodKey::new("x/foreign"), NodeName::new("n00"), gpu(1, 2));
    engine.release_gang(&id("low"), None);
    // The gang would not fit even after everything that leaves is gone.
    let said = ["-high InsufficientCapacity", "-low InsufficientCapacity"];
    assert_eq!(at(&mut engine, seconds(2)), said);
    gone(&mut engine, &low);
    assert!(engine.cycle(seconds(3)).is_empty());
    engine.delete_pod(&PodKey::new("x/foreign"));
    assert_eq!(at(&mut engine, seconds(4)), ["+high"]);
}

#[test]
fn a_new_leader_goes_on_with_what_was_nominated() {
    let mut engine = by_priority(1);
    let low = of(0, "low", 1);
    let high = of(1, "high", 1);
    let place: Placement = [(GroupName::new("worker"), vec![(NodeName::new("n00"), 1)])]
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

/// A gang leaves a whole node anyway, so no other gang has to.
#[test]
fn nobody_is_evicted_where_somebody_is_drained() {
    let mut engine = by_priority(2);
    engine.apply_queue(batch(Stop::None));
    engine.apply_gang(Gang {
        queue: QueueName::new("batch"),
        ..of(0, "drained", 1)
    });
    engine.apply_gang(of(0, "low", 1));
    engine.cycle(seconds(0));
    engine.apply_queue(batch(Stop::HoldAndDrain));
    engine.apply_gang(of(5, "high", 1));
    let said = at(&mut engine, seconds(1));
    assert_eq!(said, ["~drained", "-high InsufficientCapacity"]);
    // The gang stays after all.
    engine.apply_queue(batch(Stop::None));
    engine.stay(&id("drained"), seconds(0));
    assert_eq!(at(&mut engine, seconds(2)), ["!high low"]);
}

/// The preemptor is deleted; then the victim has left, but its pods have not.
#[test]
fn nobody_is_evicted_where_a_former_victim_goes_on_leaving() {
    let mut engine = by_priority(2);
    let a = of(0, "a", 1);
    engine.apply_gang(a.clone());
    engine.apply_gang(of(1, "b", 1));
    engine.cycle(seconds(0));
    see(&mut engine, &a);
    engine.apply_gang(of(5, "first", 1));
    assert_eq!(at(&mut engine, seconds(1)), ["!first a"]);
    engine.delete_gang(&id("first"));
    engine.apply_gang(of(5, "second", 1));
    assert_eq!(
        at(&mut engine, seconds(2)),
        ["-second InsufficientCapacity"]
    );
    engine.delete_gang(&id("a"));
    engine.apply_gang(of(6, "third", 1));
    assert_eq!(at(&mut engine, seconds(3)), ["-third InsufficientCapacity"]);
    gone(&mut engine, &a);
    assert_eq!(at(&mut engine, seconds(4)), ["+third", "!second b"]);
}

/// The watch is late: pods of the victim are seen after it was told to leave.
#[test]
fn pods_of_a_victim_that_are_seen_late_are_waited_for() {
    let mut engine = by_priority(2);
    let a = of(0, "a", 1);
    engine.apply_gang(a.clone());
    engine.apply_gang(of(1, "b", 1));
    engine.cycle(seconds(0));
    engine.apply_gang(of(5, "high", 1));
    assert_eq!(at(&mut engine, seconds(1)), ["!high a"]);
    see(&mut engine, &a);
    engine.release_gang(&id("a"), None);
    assert_eq!(at(&mut engine, seconds(2)), ["-a InsufficientCapacity"]);
    gone(&mut engine, &a);
    assert_eq!(at(&mut engine, seconds(3)), ["+high"]);
}

/// A gang that has left, started elsewhere, and leaves again.
#[test]
fn a_victim_is_waited_for_once() {
    let mut engine = by_priority(2);
    engine.apply_gang(of(0, "a", 1));
    engine.apply_gang(of(0, "b", 1));
    engine.cycle(seconds(0));
    engine.apply_gang(of(5, "high", 2));
    assert_eq!(at(&mut engine, seconds(1)), ["!high a b"]);
    engine.apply_node(gpu_node("n02", 8));
    engine.release_gang(&id("a"), None);
    assert_eq!(at(&mut engine, seconds(2)), ["+a"]);
    engine.apply_gang(Gang {
        excluded_nodes: vec![NodeName::new("n00"), NodeName::new("n01")],
        ..of(7, "other", 1)
    });
    assert_eq!(at(&mut engine, seconds(3)), ["!other a"]);
    engine.release_gang(&id("b"), None);
    let said = at(&mut engine, seconds(4));
    assert_eq!(said, ["+high", "-b InsufficientCapacity"]);
}

/// `high` is nominated for the only node, and `low` is its victim.
fn nominated() -> Engine {
    let mut engine = engine([label(gpu_node("n00", 8), "zone", "z0")]);
    engine.apply_queue(open(Stop::None));
    engine.apply_gang(of(0, "low", 1));
    engine.cycle(seconds(0));
    engine.apply_gang(of(5, "high", 1));
    assert_eq!(at(&mut engine, seconds(1)), ["!high low"]);
    engine
}

fn open(stop: Stop) -> Queue {
    Queue {
        preemption: LOWER,
        stop,
        ..Queue::new(QueueName::new("default"))
    }
}

#[test]
fn who_follows_others_is_placed_where_it_may_be_by_then() {
    let kept_out = {
        let mut gang = of(5, "high", 1);
        gang.groups[0].constraints.kept_out.insert(LabelDomain {
            label: "zone".into(),
            value: "z0".into(),
        });
        gang
    };
    let excludes = Gang {
        excluded_nodes: vec![NodeName::new("n00")],
        ..of(5, "high", 1)
    };
    let twice = of(5, "high", 2);
    for changed in [kept_out, excludes, twice] {
        let mut engine = nominated();
        engine.apply_gang(changed.clone());
        engine.delete_gang(&id("low"));
        let said = at(&mut engine, seconds(2));
        assert!(said[0].starts_with("-high"), "{said:?}");
        assert_eq!(free(&engine, "n00", GPU), 8, "{changed:?}");
    }
    // A change that does not affect its place changes nothing.
    let mut engine = nominated();
    engine.apply_gang(Gang {
        excluded_nodes: vec![NodeName::new("elsewhere")],
        ..of(6, "high", 1)
    });
    assert!(engine.cycle(seconds(2)).is_empty());
    engine.delete_gang(&id("low"));
    assert_eq!(at(&mut engine, seconds(3)), ["+high"]);
}

#[test]
fn who_follows_others_waits_again_where_it_would_be_torn_apart() {
    let rack = |name: &str, rack: &str| label(gpu_node(name, 8), "rack", rack);
    for moves in [false, true] {
        let mut engine = engine([rack("n00", "r0"), rack("n01", "r0")]);
        engine.apply_topology(Topology {
            name: TopologyName::new("hall"),
            levels: vec![TopologyLevel::of_label("rack")],
        });
        engine.apply_queue(open(Stop::None));
        engine.apply_gang(of(0, "low", 2));
        engine.cycle(seconds(0));
        engine.apply_gang(Gang {
            topology: Some(TopologyRequest::required("rack")),
            ..of(5, "high", 2)
        });
        assert_eq!(at(&mut engine, seconds(1)), ["!high low"]);
        // One of the nodes moves to another rack.
        if moves {
            engine.apply_node(rack("n01", "r1"));
        }
        engine.delete_gang(&id("low"));
        let said = at(&mut engine, seconds(2));
        let expected = if moves {
            "-high ExceedsTopology"
        } else {
            "+high"
        };
        assert_eq!(said, [expected]);
    }
}

#[test]
fn nothing_of_a_stopped_queue_starts_though_it_follows_others() {
    for stop in [Stop::Hold, Stop::HoldAndDrain] {
        let mut engine = nominated();
        engine.apply_queue(open(stop));
        assert_eq!(at(&mut engine, seconds(2)), ["-high QueueStopped"]);
        engine.delete_gang(&id("low"));
        assert!(engine.cycle(seconds(3)).is_empty());
    }
}

/// A promised place and the victims that hold it still count once: on 16 GPUs gangs
/// hold no more than 16.
#[test]
fn a_place_that_is_promised_is_not_counted_twice() {
    let mut engine = by_priority(2);
    let low = of(0, "low", 2);
    engine.apply_gang(low.clone());
    assert_eq!(at(&mut engine, seconds(0)), ["+low"]);
    see(&mut engine, &low);
    engine.apply_gang(of(5, "high", 2));
    assert_eq!(at(&mut engine, seconds(1)), ["!high low"]);
    let refusal = refusal(&mut engine, &of(0, "third", 1));
    assert!(
        refusal.to_string().contains("gangs hold 16, other pods 0"),
        "{refusal}"
    );
}
