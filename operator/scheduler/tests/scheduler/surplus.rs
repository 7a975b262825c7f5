//! Tests of surplus: it starts after all other gangs, delays none of them, and makes room first.

use std::time::Duration;

use crate::common::*;
use crate::preemption::{LOWER, at, by_priority, gone, of, preempts, seconds, see};
use trellis_scheduler::{
    Because, Engine, Gang, GangId, NodeName, PodKey, Queue, QueueName, QueueOrder, ResourceName,
    WaitReason,
};

pub fn surplus(gang: Gang) -> Gang {
    Gang {
        surplus: true,
        ..gang
    }
}

pub fn in_queue(queue: &str, gang: Gang) -> Gang {
    Gang {
        queue: QueueName::new(queue),
        ..gang
    }
}

/// Nodes of 8 GPUs, and a default queue that allows no preemption.
fn plain(nodes: usize) -> Engine {
    engine(gpu_nodes(nodes))
}

#[test]
fn it_starts_after_all_gangs_of_all_queues_whatever_its_priority() {
    let mut engine = plain(2);
    engine.apply_queue(queue("other", None));
    engine.apply_gang(surplus(of(9, "s", 1)));
    engine.apply_gang(in_queue("other", of(0, "a", 1)));
    engine.apply_gang(of(-5, "b", 1));
    assert_eq!(
        at(&mut engine, seconds(0)),
        ["+b", "+a", "-s InsufficientCapacity"]
    );
    engine.delete_gang(&id("a"));
    assert_eq!(at(&mut engine, seconds(1)), ["+s"]);
}

#[test]
fn it_waits_at_the_end_of_a_strict_queue_and_blocks_nobody_there() {
    let mut engine = plain(1);
    engine.apply_queue(Queue {
        order: QueueOrder::StrictFifo,
        ..Queue::new(QueueName::new("default"))
    });
    engine.apply_gang(surplus(of(9, "huge", 2)));
    engine.apply_gang(surplus(workers("s", 1, gpu(1, 1))));
    assert_eq!(at(&mut engine, seconds(0)), ["+s", "-huge ExceedsCluster"]);
    // The gang passes pending surplus, and takes the place of placed surplus.
    engine.apply_gang(workers("later", 1, gpu(1, 8)));
    assert_eq!(at(&mut engine, seconds(1)), ["!later s"]);
    engine.delete_gang(&id("s"));
    engine.cycle(seconds(2));
    // A pending head keeps surplus from starting as it does other gangs.
    engine.apply_gang(of(1, "head", 1));
    engine.delete_gang(&id("huge"));
    engine.apply_node(gpu_node("n01", 4));
    engine.apply_gang(surplus(workers("s", 1, gpu(1, 1))));
    engine.cycle(seconds(3));
    assert_eq!(reason(&engine, "s"), Some(WaitReason::BehindHead));
}

#[test]
fn it_is_given_up_first_for_any_gang_of_its_queue() {
    let mut engine = plain(2);
    let never = Gang {
        preemptible: false,
        min_runtime: Duration::from_secs(3600),
        ..surplus(of(9, "s", 1))
    };
    engine.apply_gang(of(-1, "low", 1));
    engine.apply_gang(never.clone());
    assert_eq!(at(&mut engine, seconds(0)), ["+low", "+s"]);
    see(&mut engine, &never);
    // The queue allows no preemption.
    engine.apply_gang(of(-9, "lowest", 1));
    let (_, victims) = preempts(&mut engine, seconds(1));
    assert_eq!(
        (&victims[0].gang, victims[0].because),
        (&id("s"), Because::Surplus)
    );
    engine.release_gang(&id("s"), None);
    assert_eq!(at(&mut engine, seconds(2)), ["-s InsufficientCapacity"]);
    gone(&mut engine, &never);
    assert_eq!(at(&mut engine, seconds(3)), ["+lowest"]);
}

#[test]
fn it_leaves_before_any_gang_and_no_more_of_it_than_must() {
    let mut engine = by_priority(4);
    for gang in [
        of(0, "low", 1),
        surplus(of(5, "s1", 1)),
        surplus(of(5, "s2", 1)),
        surplus(of(4, "s3", 1)),
    ] {
        engine.apply_gang(gang);
    }
    engine.cycle(seconds(0));
    engine.checkpointed(&id("s2"), seconds(9));
    engine.apply_gang(of(3, "two", 2));
    let (_, victims) = preempts(&mut engine, seconds(10));
    let names: Vec<&GangId> = victims.iter().map(|v| &v.gang).collect();
    assert_eq!(names, [&id("s2"), &id("s3")], "the cheapest of them");
    engine.apply_gang(of(3, "next", 2));
    let (_, victims) = preempts(&mut engine, seconds(10));
    let because: Vec<Because> = victims.iter().map(|v| v.because).collect();
    assert_eq!(because, [Because::LaterInQueue, Because::Surplus]);
}

#[test]
fn it_preempts_nobody_and_is_no_head() {
    let mut engine = by_priority(1);
    engine.apply_gang(Gang {
        runtime: Some(Duration::from_secs(60)),
        ..of(0, "low", 1)
    });
    engine.cycle(seconds(0));
    engine.apply_gang(surplus(of(9, "s", 1)));
    let decisions = engine.cycle(seconds(1));
    assert_eq!(said(&decisions), ["-s InsufficientCapacity"]);
    assert_eq!(decisions.len(), 1, "nothing is reserved: {decisions:?}");
    assert!(engine.reservation(&id("s")).is_none());
    let forecast = trellis_scheduler::Forecast::of(&engine.snapshot(), |n| n < 100);
    assert!(forecast.starts.is_empty());
}

#[test]
fn it_leaves_alone_what_is_kept_for_a_head() {
    let mut engine = plain(2);
    engine.apply_gang(Gang {
        runtime: Some(Duration::from_secs(60)),
        ..of(0, "runs", 1)
    });
    engine.cycle(seconds(0));
    engine.apply_gang(of(0, "head", 2));
    engine.cycle(seconds(1));
    // The surplus would end before the head starts, if its runtime were right.
    let says = Gang {
        runtime: Some(Duration::from_secs(1)),
        ..surplus(of(0, "s", 1))
    };
    engine.apply_gang(says);
    assert_eq!(at(&mut engine, seconds(2)), ["-s Reserved"]);
    // Surplus does not take a place either whose end is unknown.
    engine.apply_gang(of(0, "runs", 1));
    engine.apply_gang(surplus(of(0, "s2", 1)));
    assert_eq!(at(&mut engine, seconds(3)), ["-s2 Reserved"]);
    engine.delete_gang(&id("head"));
    assert_eq!(
        at(&mut engine, seconds(4)),
        ["+s", "-s2 InsufficientCapacity"]
    );
}

#[test]
fn it_is_not_counted_as_a_gang_and_its_usage_is() {
    let mut engine = plain(1);
    engine.apply_gang(surplus(workers("s", 1, gpu(1, 1))));
    engine.apply_gang(surplus(of(0, "waits", 2)));
    engine.cycle(seconds(0));
    assert!(engine.queue_counts().is_empty());
    let usage = engine.queue_usage(&QueueName::new("default"));
    assert_eq!(usage[&ResourceName::new(GPU)], 1);
    engine.apply_gang(workers("w", 1, gpu(1, 1)));
    engine.apply_gang(of(0, "w2", 2));
    engine.cycle(seconds(1));
    let counts = engine.queue_counts()[&QueueName::new("default")];
    assert_eq!((counts.pending, counts.admitted), (1, 1));
}

/// The start is known of a head that waits for the end of a gang and for surplus.
#[test]
fn what_surplus_holds_makes_no_start_unknown() {
    let mut engine = by_priority(2);
    engine.apply_gang(Gang {
        runtime: Some(Duration::from_secs(60)),
        ..of(9, "runs", 1)
    });
    engine.apply_gang(surplus(of(0, "s", 1)));
    engine.cycle(seconds(0));
    engine.apply_gang(of(0, "head", 2));
    engine.cycle(seconds(1));
    let kept = engine.reservation(&id("head")).unwrap();
    assert_eq!(kept.start, Some(seconds(60)));
    engine.delete_gang(&id("runs"));
    assert_eq!(at(&mut engine, seconds(2)), ["!head s"]);
}

#[test]
fn a_gang_is_read_that_does_not_say_whether_it_is_surplus() {
    let gang = of(0, "w", 1);
    let text = serde_json::to_value(&gang).unwrap();
    assert!(text.get("surplus").is_none());
    assert_eq!(serde_json::from_value::<Gang>(text).unwrap(), gang);
    let text = serde_json::to_value(surplus(gang)).unwrap();
    assert!(serde_json::from_value::<Gang>(text).unwrap().surplus);
}

#[test]
fn a_queue_that_is_drained_lets_go_of_surplus_too() {
    let mut engine = plain(1);
    engine.apply_gang(surplus(of(0, "s", 1)));
    engine.cycle(seconds(0));
    engine.apply_queue(Queue {
        stop: trellis_scheduler::Stop::HoldAndDrain,
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    assert_eq!(at(&mut engine, seconds(1)), ["~s"]);
}

/// As the operator does it: a pod beyond a gang makes room, goes, and waits again.
#[test]
fn what_made_room_is_not_placed_on_what_it_made() {
    for lost_first in [false, true] {
        let mut engine = engine(gpu_nodes(1));
        let pod = |number: u32| {
            let mut pod = workers(&format!("j/{number}"), 1, gpu(1, 1));
            pod.surplus = true;
            pod.groups[0].pod_prefix = "j-worker".to_owned();
            pod.groups[0].first = number;
            pod
        };
        let mut gang = workers("j", 2, gpu(1, 1));
        gang.groups[0].pod_prefix = "j-worker".to_owned();
        engine.apply_gang(gang);
        cycle(&mut engine);
        engine.apply_gang(pod(2));
        engine.apply_gang(pod(3));
        assert_eq!(cycle(&mut engine), ["+j/2", "+j/3"]);
        for number in 0..4 {
            let key = PodKey::new(format!("team/j-worker-{number}"));
            engine.apply_pod(key, NodeName::new("n00"), gpu(1, 1));
        }
        assert_eq!(free(&engine, "n00", GPU), 4);
        engine.apply_gang(workers("whole", 1, gpu(5, 5)));
        let decided = cycle(&mut engine);
        let victim = (2..4)
            .find(|n| decided[0].contains(&format!("j/{n}")))
            .unwrap();
        let key = PodKey::new(format!("team/j-worker-{victim}"));
        if lost_first {
            engine.lose_pod(&key);
            engine.delete_gang(&pod(victim).id);
        } else {
            engine.delete_gang(&pod(victim).id);
            engine.lose_pod(&key);
        }
        let decided = cycle(&mut engine);
        assert_eq!(decided, ["+whole"], "{lost_first}");
        assert_eq!(free(&engine, "n00", GPU), 0);
        engine.apply_pod(worker("whole", 0), NodeName::new("n00"), gpu(5, 5));
        assert_eq!(free(&engine, "n00", GPU), 0);
        engine.apply_gang(pod(victim));
        let waits = format!("-j/{victim} InsufficientCapacity");
        assert_eq!(cycle(&mut engine), [waits], "{lost_first}");
    }
}
