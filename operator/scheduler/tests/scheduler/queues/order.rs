//! Tests of the order of gangs, of the reasons why they wait, and of the reports of a cycle.

use crate::common::*;
use trellis_scheduler::{Engine, Gang, NodeName, PodKey, QueueName, QueueStop, WaitReason};

fn ranked_gang(name: &str, priority: i32, submitted: i64) -> Gang {
    Gang {
        priority,
        submitted: ms(submitted),
        ..workers(name, 1, gpu(1, 8))
    }
}

#[test]
fn gangs_start_by_priority_then_submission_then_name() {
    let mut engine = engine(gpu_nodes(4));
    for gang in [
        ranked_gang("c", 0, 5),
        ranked_gang("b", 0, 5),
        ranked_gang("late", 9, 7),
        ranked_gang("early", 0, 1),
    ] {
        engine.apply_gang(gang);
    }
    assert_eq!(cycle(&mut engine), ["+late", "+early", "+b", "+c"]);
}

#[test]
fn blocked_gang_does_not_block_later_gangs() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(workers("big", 3, gpu(1, 8)));
    engine.apply_gang(workers("small", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["+small", "-big ExceedsCluster"]);
}

#[test]
fn second_cycle_without_changes_has_no_decisions() {
    let mut engine = engine(gpu_nodes(2));
    for i in 0..20 {
        engine.apply_gang(workers(&format!("g{i:02}"), 1, gpu(1, 1)));
    }
    let decisions = cycle(&mut engine);
    assert_eq!(decisions.len(), 20);
    assert_eq!(decisions.iter().filter(|d| d.starts_with('+')).count(), 16);
    assert_eq!(decisions[16], "-g16 InsufficientCapacity");
    assert!(cycle(&mut engine).is_empty());
    // Events without changes cause no decisions.
    engine.apply_node(gpu_node("n00", 8));
    engine.apply_queue(queue("default", None));
    engine.apply_gang(workers("g16", 1, gpu(1, 1)));
    engine.apply_pod(worker_key("g00", 0), NodeName::new("n00"), gpu(1, 1));
    assert!(cycle(&mut engine).is_empty());
    engine.delete_pod(&worker_key("g00", 0));
    assert_eq!(cycle(&mut engine), ["+g16"]);
}

#[test]
fn gang_wakes_on_every_change_that_could_help() {
    let gang = || workers("w", 1, gpu(1, 8));
    let blocked = |e: &mut Engine| {
        apply_pod(e, "x/a", "n00", gpu(1, 8));
        e.apply_gang(gang());
        assert_eq!(cycle(e), ["-w InsufficientCapacity"]);
    };
    type Help = fn(&mut Engine);
    let helps: [Help; 5] = [
        |e| e.delete_pod(&PodKey::new("x/a")),
        |e| apply_pod(e, "x/a", "n00", cpu(1)),
        |e| apply_pod(e, "x/a", "elsewhere", gpu(1, 8)),
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
fn new_opened_and_grown_queues_wake_their_gangs() {
    let mut engine = Engine::new();
    engine.apply_node(gpu_node("n00", 8));
    engine.apply_gang(workers("w", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["-w QueueNotFound"]);
    let mut held = queue("default", Some(&[(GPU, 4), ("cpu", 9_000)]));
    held.stop = QueueStop::Hold;
    engine.apply_queue(held.clone());
    assert_eq!(cycle(&mut engine), ["-w QueueStopped"]);
    held.stop = QueueStop::None;
    engine.apply_queue(held);
    assert_eq!(cycle(&mut engine), ["-w ExceedsQuota"]);
    engine.delete_queue(&QueueName::new("default"));
    assert_eq!(cycle(&mut engine), ["-w QueueNotFound"]);
    engine.apply_queue(queue("default", Some(&[(GPU, 8), ("cpu", 9_000)])));
    assert_eq!(cycle(&mut engine), ["+w"]);
}

#[test]
fn released_quota_wakes_the_waiting_gang() {
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
    assert_eq!(format_decisions(&engine.cycle(ms(1_000))), ["+a"]);
}

#[test]
fn released_gang_loses_its_turn() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_gang(ranked_gang("first", 9, 0));
    engine.apply_gang(ranked_gang("second", 0, 0));
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
        format_decisions(&engine.cycle(ms(5_000))),
        ["-first InsufficientCapacity"]
    );
    assert_eq!(engine.next_wakeup(), None);
}

#[test]
fn engine_time_does_not_go_back() {
    let mut engine = engine(gpu_nodes(1));
    engine.cycle(ms(100));
    let back = Gang {
        not_before: Some(ms(50)),
        ..workers("w", 1, gpu(1, 8))
    };
    assert!(engine.try_gang(&back, ms(10)).is_ok());
    engine.apply_gang(back);
    assert_eq!(
        format_decisions(&engine.cycle(ms(10))),
        ["+w"],
        "it has been 100"
    );
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
    assert_eq!(format_decisions(&engine.cycle(ms(9_000))), ["+w"]);
    // After the gang was placed and released, its order is as before.
    engine.release_gang(&id("w"), None);
    engine.apply_gang(workers("w", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["+w"]);
}

#[test]
fn wait_decision_is_reported_only_when_its_reason_changes() {
    let mut engine = engine(gpu_nodes(2));
    apply_pod(&mut engine, "x/a", "n00", gpu(1, 4));
    apply_pod(&mut engine, "x/b", "n01", gpu(1, 4));
    engine.apply_gang(workers("w", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["-w Fragmented"]);
    apply_pod(&mut engine, "x/c", "n00", gpu(1, 1));
    assert_eq!(cycle(&mut engine), ["-w InsufficientCapacity"]);
    apply_pod(&mut engine, "x/d", "n00", gpu(1, 1));
    assert!(cycle(&mut engine).is_empty());
    let seen = |c: Option<trellis_scheduler::WaitExplanation>| c.unwrap().to_string();
    assert!(seen(engine.explanation(&id("w")).cloned()).contains("7 are free"));
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
fn quota_taken_by_other_gangs_becomes_the_reason() {
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
fn changed_gang_is_tried_again() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_gang(workers("w", 2, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["-w ExceedsCluster"]);
    engine.apply_gang(workers("w", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["+w"]);
    engine.delete_gang(&id("w"));
    engine.delete_gang(&id("w"));
    engine.release_gang(&id("w"), None);
    assert_eq!(
        (engine.placed_gang_count(), engine.pending_gang_count()),
        (0, 0)
    );
}

#[test]
fn positions_count_within_the_queue() {
    let mut engine = engine([]);
    engine.apply_gang(ranked_gang("b", 0, 2));
    engine.apply_gang(ranked_gang("a", 0, 1));
    engine.apply_gang(Gang {
        queue: QueueName::new("other"),
        ..ranked_gang("o", 9, 0)
    });
    let positions = |e: &Engine| ["a", "b", "o", "none"].map(|n| e.position(&id(n)));
    assert_eq!(positions(&engine), [Some(1), Some(2), Some(1), None]);
    engine.apply_gang(ranked_gang("b", 1, 2));
    assert_eq!(positions(&engine), [Some(2), Some(1), Some(1), None]);
    engine.delete_gang(&id("b"));
    assert_eq!(positions(&engine), [Some(1), None, Some(1), None]);
}

#[test]
fn ten_thousand_pending_gangs_each_have_one_reason() {
    let mut engine = engine(gpu_nodes(2));
    for i in 0..10_000 {
        engine.apply_gang(workers(&format!("g{i:05}"), 3, gpu(1, 8)));
    }
    assert_eq!(engine.cycle(ms(0)).len(), 10_000);
    assert!(engine.cycle(ms(0)).is_empty());
    assert_eq!(
        wait_reason(&engine, "g09999"),
        Some(WaitReason::ExceedsCluster)
    );
    engine.apply_node(gpu_node("n02", 8));
    let decisions = cycle(&mut engine);
    assert_eq!(decisions[0], "+g00000");
    assert_eq!(
        decisions.len(),
        10_000,
        "all others wait for another reason now"
    );
    assert_eq!(
        wait_reason(&engine, "g09999"),
        Some(WaitReason::InsufficientCapacity)
    );
    engine.delete_gang(&id("g00000"));
    assert_eq!(cycle(&mut engine), ["+g00001"]);
}
