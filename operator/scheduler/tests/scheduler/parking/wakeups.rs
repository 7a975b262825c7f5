//! Tests that the engine tries a parked gang again whenever a new try would decide differently.

use crate::common::*;
use crate::preemption::{LOWER, run_cycle_at, seconds};
use trellis_scheduler::{Constraints, Engine, Gang, Queue, TaskGroup};

/// Returns an engine with a queue of 6 cores. A gang of low priority holds all of them, and a gang
/// of high priority needs 2 of them on a node with the label `late`.
fn engine_lacking_quota_and_a_node() -> Engine {
    let mut engine = engine([cpu_node("n0")]);
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..queue("default", Some(&[("cpu", 6_000)]))
    });
    engine.apply_gang(workers("low", 1, cpu(6)));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+low"]);
    let mut constraints = Constraints::default();
    constraints
        .node_selector
        .insert("late".into(), "yes".into());
    let pod = TaskGroup {
        constraints,
        ..group("worker", 1, cpu(2))
    };
    engine.apply_gang(Gang {
        priority: 1,
        ..gang("high", vec![pod])
    });
    assert_eq!(
        run_cycle_at(&mut engine, seconds(5)),
        ["-high QuotaExceeded"]
    );
    engine
}

#[test]
fn a_new_node_wakes_a_gang_that_lacks_quota_and_may_preempt() {
    let mut engine = engine_lacking_quota_and_a_node();
    engine.apply_node(label(cpu_node("n1"), "late", "yes"));
    assert_eq!(run_cycle_at(&mut engine, seconds(600)), ["!high low"]);
}

#[test]
fn a_relabelled_node_wakes_a_gang_that_lacks_quota_and_may_preempt() {
    let mut engine = engine_lacking_quota_and_a_node();
    engine.apply_node(label(cpu_node("n0"), "late", "yes"));
    assert_eq!(run_cycle_at(&mut engine, seconds(600)), ["!high low"]);
}

#[test]
fn an_uncordoned_or_repaired_node_wakes_a_gang_that_lacks_quota_and_may_preempt() {
    for broken in [true, false] {
        let mut engine = engine_lacking_quota_and_a_node();
        let whole = label(cpu_node("n1"), "late", "yes");
        let mut node = whole.clone();
        (node.unschedulable, node.ready) = (!broken, !broken);
        engine.apply_node(node);
        assert!(run_cycle_at(&mut engine, seconds(100)).is_empty());
        engine.apply_node(whole);
        assert_eq!(run_cycle_at(&mut engine, seconds(600)), ["!high low"]);
    }
}
