//! Tests of the order of gangs, of what they wait for, and of what a cycle reports.

use crate::common::*;
use trellis_scheduler::{Engine, Gang, NodeName, PodKey, QueueName, Stop, WaitReason};

fn ranked(name: &str, priority: i32, submitted: i64) -> Gang {
    Gang {
        priority,
        submitted: ms(submitted),
        ..workers(name, 1, gpu(1, 8))
    }
}

#[test]
fn priority_then_submission_then_name() {
    let mut engine = engine(gpu_nodes(4));
    for gang in [
        ranked("c", 0, 5),
        ranked("b", 0, 5),
        ranked("late", 9, 7),
        ranked("early", 0, 1),
    ] {
        engine.apply_gang(gang);
    }
    assert_eq!(cycle(&mut engine), ["+late", "+early", "+b", "+c"]);
}

#[test]
fn who_cannot_start_does_not_block_those_behind() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(workers("big", 3, gpu(1, 8)));
    engine.apply_gang(workers("small", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["+small", "-big ExceedsCluster"]);
}

#[test]
fn a_cycle_drains_and_then_has_nothing_to_say() {
    let mut engine = engine(gpu_nodes(2));
    for i in 0..20 {
        engine.apply_gang(workers(&format!("g{i:02}"), 1, gpu(1, 1)));
    }
    let decisions = cycle(&mut engine);
    assert_eq!(decisions.len(), 20);
    assert_eq!(decisions.iter().filter(|d| d.starts_with('+')).count(), 16);
    assert_eq!(decisions[16], "-g16 InsufficientCapacity");
    assert!(cycle(&mut engine).is_empty());
    // Events that change nothing cause no decisions.
    engine.apply_node(gpu_node("n00", 8));
    engine.apply_queue(queue("default", None));
    engine.apply_gang(workers("g16", 1, gpu(1, 1)));
    engine.apply_pod(worker("g00", 0), NodeName::new("n00"), gpu(1, 1));
    assert!(cycle(&mut engine).is_empty());
    engine.delete_pod(&worker("g00", 0));
    assert_eq!(cycle(&mut engine), ["+g16"]);
}

#[test]
fn whatever_could_help_wakes_a_gang() {
    let gang = || workers("w", 1, gpu(1, 8));
    let blocked = |e: &mut Engine| {
        pod(e, "x/a", "n00", gpu(1, 8));
        e.apply_gang(gang());
        assert_eq!(cycle(e), ["-w InsufficientCapacity"]);
    };
    type Help = fn(&mut Engine);
    let helps: [Help; 5] = [
        |e| e.delete_pod(&PodKey::new("x/a")),
        |e| pod(e, "x/a", "n00", cpu(1)),
        |e| pod(e, "x/a", "elsewhere", gpu(1, 8)),
        |e| e.apply_node(gpu_node("n01", 8)),
        |e| e.apply_node(gpu_node("n00", 16)),
    ];
    for help in helps {
        let mut engine = engine(gpu_nodes(1));
        blocked(&mut engine);
        help(&mut engine);
        assert_eq!(cycle(&mut engine), ["+w"]);
    }
}

#[test]
fn queues_that_come_open_and_grow_wake_their_gangs() {
    let mut engine = Engine::new();
    engine.apply_node(gpu_node("n00", 8));
    engine.apply_gang(workers("w", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["-w QueueNotFound"]);
    let mut held = queue("default", Some(&[(GPU, 4), ("cpu", 9_000)]));
    held.stop = Stop::Hold;
    engine.apply_queue(held.clone());
    assert_eq!(cycle(&mut engine), ["-w QueueStopped"]);
    held.stop = Stop::None;
    engine.apply_queue(held);
    assert_eq!(cycle(&mut engine), ["-w ExceedsQuota"]);
    engine.delete_queue(&QueueName::new("default"));
    assert_eq!(cycle(&mut engine), ["-w QueueNotFound"]);
    engine.apply_queue(queue("default", Some(&[(GPU, 8), ("cpu", 9_000)])));
    assert_eq!(cycle(&mut engine), ["+w"]);
}

#[test]
fn quota_that_is_given_back_wakes_who_waits_for_it() {
    let mut engine = engine(gpu_nodes(3));
    engine.apply_queue(queue("default", Some(&[(GPU, 16), ("cpu", 99_000)])));
    for name in ["a", "b", "c"] {
        engine.apply_gang(workers(name, 1, gpu(1, 8)));
    }
    assert_eq!(cycle(&mut engine), ["+a", "+b", "-c QuotaExceeded"]);
    engine.release_gang(&id("a"), Some(ms(1_000)));
    assert_eq!(cycle(&mut engine), ["+c", "-a BackingOff"]);
    engine.delete_gang(&id("b"));
    assert!(cycle(&mut engine).is_empty());
    assert_eq!(said(&engine.cycle(ms(1_000))), ["+a"]);
}

#[test]
fn a_gang_that_is_released_loses_its_turn() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_gang(ranked("first", 9, 0));
    engine.apply_gang(ranked("second", 0, 0));
    assert_eq!(
        cycle(&mut engine),
        ["+first", "-second InsufficientCapacity"]
    );
    engine.release_gang(&id("first"), Some(ms(5_000)));
    assert_eq!(engine.next_wakeup(), None, "it has not been looked at yet");
    assert_eq!(cycle(&mut engine), ["+second", "-first BackingOff"]);
    assert_eq!(engine.next_wakeup(), Some(ms(5_000)));
    assert!(engine.cycle(ms(4_999)).is_empty());
    assert_eq!(
        said(&engine.cycle(ms(5_000))),
        ["-first InsufficientCapacity"]
    );
    assert_eq!(engine.next_wakeup(), None);
}

#[test]
fn time_does_not_go_back() {
    let mut engine = engine(gpu_nodes(1));
    engine.cycle(ms(100));
    let back = Gang {
        not_before: Some(ms(50)),
        ..workers("w", 1, gpu(1, 8))
    };
    assert!(engine.trial(&back, ms(10)).is_ok());
    engine.apply_gang(back);
    assert_eq!(said(&engine.cycle(ms(10))), ["+w"], "it has been 100");
}

#[test]
fn an_update_does_not_shorten_the_back_off_of_a_release() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_gang(workers("w", 1, gpu(1, 8)));
    cycle(&mut engine);
    engine.release_gang(&id("w"), Some(ms(5_000)));
    engine.apply_gang(Gang {
        priority: 3,
        ..workers("w", 1, gpu(1, 8))
    });
    assert_eq!(cycle(&mut engine), ["-w BackingOff"]);
    engine.apply_gang(Gang {
        not_before: Some(ms(9_000)),
        ..workers("w", 1, gpu(1, 8))
    });
    assert!(cycle(&mut engine).is_empty());
    assert_eq!(engine.next_wakeup(), Some(ms(9_000)));
    assert_eq!(said(&engine.cycle(ms(9_000))), ["+w"]);
    // After it was placed, its order is as before.
    engine.release_gang(&id("w"), None);
    engine.apply_gang(workers("w", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["+w"]);
}

#[test]
fn a_wait_is_told_when_its_reason_changes_and_not_when_its_numbers_do() {
    let mut engine = engine(gpu_nodes(2));
    pod(&mut engine, "x/a", "n00", gpu(1, 4));
    pod(&mut engine, "x/b", "n01", gpu(1, 4));
    engine.apply_gang(workers("w", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["-w Fragmented"]);
    pod(&mut engine, "x/c", "n00", gpu(1, 1));
    assert_eq!(cycle(&mut engine), ["-w InsufficientCapacity"]);
    pod(&mut engine, "x/d", "n00", gpu(1, 1));
    assert!(cycle(&mut engine).is_empty());
    let seen = |c: Option<trellis_scheduler::Certificate>| c.unwrap().to_string();
    assert!(seen(engine.certificate(&id("w")).cloned()).contains("7 are free"));
    assert!(seen(engine.explain(&id("w"), ms(0))).contains("6 are free"));
    for key in ["x/c", "x/d"] {
        engine.delete_pod(&PodKey::new(key));
    }
    assert_eq!(cycle(&mut engine), ["-w Fragmented"]);
    engine.delete_node(&NodeName::new("n00"));
    assert_eq!(cycle(&mut engine), ["-w InsufficientCapacity"]);
    engine.delete_node(&NodeName::new("n01"));
    assert_eq!(cycle(&mut engine), ["-w NoMatchingNodes"]);
    engine.apply_node(gpu_node("n02", 8));
    assert_eq!(engine.explain(&id("w"), ms(0)), None);
    assert_eq!(cycle(&mut engine), ["+w"]);
    assert_eq!(engine.explain(&id("w"), ms(0)), None);
}

#[test]
fn quota_that_others_take_becomes_the_reason() {
    let mut engine = engine(gpu_nodes(3));
    engine.apply_queue(queue("default", Some(&[(GPU, 24), ("cpu", 99_000)])));
    engine.apply_queue(queue("other", None));
    let other = Gang {
        queue: QueueName::new("other"),
        ..workers("o", 3, gpu(1, 4))
    };
    engine.apply_gang(other);
    assert_eq!(cycle(&mut engine), ["+o"]);
    engine.apply_gang(workers("big", 3, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["-big InsufficientCapacity"]);
    engine.apply_gang(workers("small", 1, gpu(1, 1)));
    assert_eq!(cycle(&mut engine), ["+small", "-big QuotaExceeded"]);
}

#[test]
fn a_gang_that_changes_is_looked_at_again() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_gang(workers("w", 2, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["-w ExceedsCluster"]);
    engine.apply_gang(workers("w", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["+w"]);
    engine.delete_gang(&id("w"));
    engine.delete_gang(&id("w"));
    engine.release_gang(&id("w"), None);
    assert_eq!((engine.placed_gangs(), engine.waiting_gangs()), (0, 0));
}

#[test]
fn positions_count_within_the_queue() {
    let mut engine = engine([]);
    engine.apply_gang(ranked("b", 0, 2));
    engine.apply_gang(ranked("a", 0, 1));
    engine.apply_gang(Gang {
        queue: QueueName::new("other"),
        ..ranked("o", 9, 0)
    });
    let positions = |e: &Engine| ["a", "b", "o", "none"].map(|n| e.position(&id(n)));
    assert_eq!(positions(&engine), [Some(1), Some(2), Some(1), None]);
    engine.apply_gang(ranked("b", 1, 2));
    assert_eq!(positions(&engine), [Some(2), Some(1), Some(1), None]);
    engine.delete_gang(&id("b"));
    assert_eq!(positions(&engine), [Some(1), None, Some(1), None]);
}

#[test]
fn ten_thousand_gangs_wait_each_with_one_reason() {
    let mut engine = engine(gpu_nodes(2));
    for i in 0..10_000 {
        engine.apply_gang(workers(&format!("g{i:05}"), 3, gpu(1, 8)));
    }
    assert_eq!(engine.cycle(ms(0)).len(), 10_000);
    assert!(engine.cycle(ms(0)).is_empty());
    assert_eq!(reason(&engine, "g09999"), Some(WaitReason::ExceedsCluster));
    engine.apply_node(gpu_node("n02", 8));
    let decisions = cycle(&mut engine);
    assert_eq!(decisions[0], "+g00000");
    assert_eq!(
        decisions.len(),
        10_000,
        "all others wait for another reason now"
    );
    assert_eq!(
        reason(&engine, "g09999"),
        Some(WaitReason::InsufficientCapacity)
    );
    engine.delete_gang(&id("g00000"));
    assert_eq!(cycle(&mut engine), ["+g00001"]);
}
