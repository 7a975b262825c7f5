//! Tests of surplus: it starts after all other gangs, delays none of them, and makes room first.

pub(super) mod queues;

use std::time::Duration;

use crate::common::*;
use crate::preemption::{
    LOWER, apply_pods_of, delete_pods_of, engine_with_priority_preemption, expect_preemption,
    priority_gang, run_cycle_at, seconds,
};
use trellis_scheduler::{
    Engine, Gang, GangId, NodeName, PodKey, PreemptionReason, Queue, QueueName, QueueOrder,
    ResourceName, WaitReason,
};

pub fn as_surplus(gang: Gang) -> Gang {
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

/// Returns an engine with nodes of 8 GPUs, and a default queue that allows no preemption.
fn engine_without_preemption(nodes: usize) -> Engine {
    engine(gpu_nodes(nodes))
}

#[test]
fn surplus_starts_after_all_gangs_of_all_queues() {
    let mut engine = engine_without_preemption(2);
    engine.apply_queue(queue("other", None));
    engine.apply_gang(as_surplus(priority_gang(9, "s", 1)));
    engine.apply_gang(in_queue("other", priority_gang(0, "a", 1)));
    engine.apply_gang(priority_gang(-5, "b", 1));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(0)),
        ["+b", "+a", "-s InsufficientCapacity"]
    );
    engine.delete_gang(&id("a"));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+s"]);
}

#[test]
fn surplus_waits_at_the_end_of_a_strict_queue() {
    let mut engine = engine_without_preemption(1);
    engine.apply_queue(Queue {
        order: QueueOrder::StrictFifo,
        ..Queue::new(QueueName::new("default"))
    });
    engine.apply_gang(as_surplus(priority_gang(9, "huge", 2)));
    engine.apply_gang(as_surplus(workers("s", 1, gpu(1, 1))));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(0)),
        ["+s", "-huge ExceedsCluster"]
    );
    // The gang passes pending surplus, and takes the place of placed surplus.
    engine.apply_gang(workers("later", 1, gpu(1, 8)));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!later s"]);
    engine.delete_gang(&id("s"));
    engine.cycle(seconds(2));
    // A pending head blocks surplus in the same way as other gangs.
    engine.apply_gang(priority_gang(1, "head", 1));
    engine.delete_gang(&id("huge"));
    engine.apply_node(gpu_node("n01", 4));
    engine.apply_gang(as_surplus(workers("s", 1, gpu(1, 1))));
    engine.cycle(seconds(3));
    assert_eq!(wait_reason(&engine, "s"), Some(WaitReason::BehindHead));
}

#[test]
fn surplus_is_evicted_first_for_any_gang_of_its_queue() {
    let mut engine = engine_without_preemption(2);
    let never = Gang {
        preemptible: false,
        min_runtime: Duration::from_secs(3600),
        ..as_surplus(priority_gang(9, "s", 1))
    };
    engine.apply_gang(priority_gang(-1, "low", 1));
    engine.apply_gang(never.clone());
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+low", "+s"]);
    apply_pods_of(&mut engine, &never);
    // The queue allows no preemption.
    engine.apply_gang(priority_gang(-9, "lowest", 1));
    let (_, victims) = expect_preemption(&mut engine, seconds(1));
    assert_eq!(
        (&victims[0].gang, victims[0].reason),
        (&id("s"), PreemptionReason::Surplus)
    );
    engine.release_gang(&id("s"), None);
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["-s InsufficientCapacity"]
    );
    delete_pods_of(&mut engine, &never);
    assert_eq!(run_cycle_at(&mut engine, seconds(3)), ["+lowest"]);
}

#[test]
fn surplus_leaves_before_gangs_and_no_more_than_needed() {
    let mut engine = engine_with_priority_preemption(4);
    for gang in [
        priority_gang(0, "low", 1),
        as_surplus(priority_gang(5, "s1", 1)),
        as_surplus(priority_gang(5, "s2", 1)),
        as_surplus(priority_gang(4, "s3", 1)),
    ] {
        engine.apply_gang(gang);
    }
    engine.cycle(seconds(0));
    engine.record_checkpoint(&id("s2"), seconds(9));
    engine.apply_gang(priority_gang(3, "two", 2));
    let (_, victims) = expect_preemption(&mut engine, seconds(10));
    let names: Vec<&GangId> = victims.iter().map(|v| &v.gang).collect();
    assert_eq!(names, [&id("s2"), &id("s3")], "the cheapest of them");
    engine.apply_gang(priority_gang(3, "next", 2));
    let (_, victims) = expect_preemption(&mut engine, seconds(10));
    let because: Vec<PreemptionReason> = victims.iter().map(|v| v.reason).collect();
    assert_eq!(
        because,
        [PreemptionReason::LaterInQueue, PreemptionReason::Surplus]
    );
}

#[test]
fn surplus_preempts_no_gang_and_is_no_head() {
    let mut engine = engine_with_priority_preemption(1);
    engine.apply_gang(Gang {
        runtime: Some(Duration::from_secs(60)),
        ..priority_gang(0, "low", 1)
    });
    engine.cycle(seconds(0));
    engine.apply_gang(as_surplus(priority_gang(9, "s", 1)));
    let decisions = engine.cycle(seconds(1));
    assert_eq!(format_decisions(&decisions), ["-s InsufficientCapacity"]);
    assert_eq!(decisions.len(), 1, "nothing is reserved: {decisions:?}");
    assert!(engine.reservation(&id("s")).is_none());
    let forecast = trellis_scheduler::Forecast::from_snapshot(&engine.snapshot(), |n| n < 100);
    assert!(forecast.starts.is_empty());
}

#[test]
fn surplus_avoids_room_reserved_for_a_head() {
    let mut engine = engine_without_preemption(2);
    engine.apply_gang(Gang {
        runtime: Some(Duration::from_secs(60)),
        ..priority_gang(0, "runs", 1)
    });
    engine.cycle(seconds(0));
    engine.apply_gang(priority_gang(0, "head", 2));
    engine.cycle(seconds(1));
    // By its stated runtime, the surplus would end before the head starts.
    let says = Gang {
        runtime: Some(Duration::from_secs(1)),
        ..as_surplus(priority_gang(0, "s", 1))
    };
    engine.apply_gang(says);
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["-s Reserved"]);
    // Surplus does not take a place either if the head's start is unknown.
    engine.apply_gang(priority_gang(0, "runs", 1));
    engine.apply_gang(as_surplus(priority_gang(0, "s2", 1)));
    assert_eq!(run_cycle_at(&mut engine, seconds(3)), ["-s2 Reserved"]);
    engine.delete_gang(&id("head"));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(4)),
        ["+s", "-s2 InsufficientCapacity"]
    );
}

#[test]
fn surplus_counts_as_usage_but_not_as_a_gang() {
    let mut engine = engine_without_preemption(1);
    engine.apply_gang(as_surplus(workers("s", 1, gpu(1, 1))));
    engine.apply_gang(as_surplus(priority_gang(0, "waits", 2)));
    engine.cycle(seconds(0));
    assert!(engine.queue_counts().is_empty());
    let usage = engine.queue_usage(&QueueName::new("default"));
    assert_eq!(usage[&ResourceName::new(GPU)], 1);
    engine.apply_gang(workers("w", 1, gpu(1, 1)));
    engine.apply_gang(priority_gang(0, "w2", 2));
    engine.cycle(seconds(1));
    let counts = engine.queue_counts()[&QueueName::new("default")];
    assert_eq!((counts.pending, counts.admitted), (1, 1));
}

/// The engine knows the start of a head that waits for the end of a gang and for surplus.
#[test]
fn head_start_is_known_while_surplus_uses_its_room() {
    let mut engine = engine_with_priority_preemption(2);
    engine.apply_gang(Gang {
        runtime: Some(Duration::from_secs(60)),
        ..priority_gang(9, "runs", 1)
    });
    engine.apply_gang(as_surplus(priority_gang(0, "s", 1)));
    engine.cycle(seconds(0));
    engine.apply_gang(priority_gang(0, "head", 2));
    engine.cycle(seconds(1));
    let kept = engine.reservation(&id("head")).unwrap();
    assert_eq!(kept.start, Some(seconds(60)));
    engine.delete_gang(&id("runs"));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["!head s"]);
}

#[test]
fn gang_without_a_surplus_field_is_deserialized() {
    let gang = priority_gang(0, "w", 1);
    let text = serde_json::to_value(&gang).unwrap();
    assert!(text.get("surplus").is_none());
    assert_eq!(serde_json::from_value::<Gang>(text).unwrap(), gang);
    let text = serde_json::to_value(as_surplus(gang)).unwrap();
    assert!(serde_json::from_value::<Gang>(text).unwrap().surplus);
}

#[test]
fn drained_queue_evicts_its_surplus() {
    let mut engine = engine_without_preemption(1);
    engine.apply_gang(as_surplus(priority_gang(0, "s", 1)));
    engine.cycle(seconds(0));
    engine.apply_queue(Queue {
        stop: trellis_scheduler::QueueStop::HoldAndDrain,
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["~s"]);
}

/// A pod beyond a gang makes room, goes, and waits again, as in the operator.
#[test]
fn surplus_is_not_placed_on_room_that_it_released() {
    for lost_first in [false, true] {
        let mut engine = engine(gpu_nodes(1));
        let pod = |number: u32| {
            let mut pod = workers(&format!("j/{number}"), 1, gpu(1, 1));
            pod.surplus = true;
            pod.groups[0].pod_prefix = "j-worker".to_owned();
            pod.groups[0].starts = vec![number];
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
        assert_eq!(free_amount(&engine, "n00", GPU), 4);
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
        assert_eq!(free_amount(&engine, "n00", GPU), 0);
        engine.apply_pod(worker_key("whole", 0), NodeName::new("n00"), gpu(5, 5));
        assert_eq!(free_amount(&engine, "n00", GPU), 0);
        engine.apply_gang(pod(victim));
        let waits = format!("-j/{victim} InsufficientCapacity");
        assert_eq!(cycle(&mut engine), [waits], "{lost_first}");
    }
}
