//! Tests of the order in which gangs get new nodes.

use super::*;
use crate::preemption::expect_preemption;
use trellis_scheduler::{PreemptionPolicy, WithinQueuePolicy};

fn priority(priority: i32, gang: Gang) -> Gang {
    Gang { priority, ..gang }
}

#[test]
fn nodes_that_arrive_go_to_the_gang_before_the_one_that_waits_for_them() {
    let mut engine = growing_engine(6);
    submit(&mut engine, growing_gang("w", 4));
    for node in ["n0", "n1", "n2"] {
        engine.apply_node(pool_node(node, "h100"));
    }
    assert!(run_cycle_at(&mut engine, seconds(40)).is_empty());
    engine.apply_gang(priority(1, growing_gang("first", 2)));
    engine.apply_gang(priority(-1, growing_gang("last", 1)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(41)),
        ["+first", "-last InsufficientCapacity"]
    );
    // The gang keeps the node that is left, and gets more.
    for node in ["n3", "n4", "n5"] {
        engine.apply_node(pool_node(node, "h100"));
    }
    assert_eq!(
        run_cycle_at(&mut engine, seconds(42)),
        ["+w", "-last InsufficientCapacity"],
        "the last gang gets no new nodes: the flavor has its maximum"
    );
}

#[test]
fn gang_with_fewer_nodes_than_both_need_starts_alone() {
    let mut engine = growing_engine(20);
    engine.apply_gang(growing_gang("a", 16));
    engine.apply_gang(growing_gang("b", 16));
    run_cycle_at(&mut engine, seconds(0));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(30)),
        ["$a 16 h100", "-a Provisioning", "-b NoMatchingNodes"],
        "maxNodes is the obstacle to new nodes for b now"
    );
    for number in 0..20 {
        engine.apply_node(pool_node(&format!("n{number:02}"), "h100"));
        let decisions = run_cycle_at(&mut engine, seconds(40 + number));
        let starts = decisions == ["+a", "-b InsufficientCapacity"];
        assert_eq!(starts, number == 15, "{decisions:?}");
    }
    assert_eq!(engine.provisioning(&id("b")), None);
}

/// Applies this many gangs of this many nodes, and returns the engine and the decisions at 30 s.
fn submit_gangs(gangs: u32, nodes: u32) -> (Engine, Vec<String>) {
    let mut engine = growing_engine(1_000);
    engine.apply_queue(growing_queue("default", 10_000, &["h100"]));
    for number in 0..gangs {
        engine.apply_gang(growing_gang(&format!("w{number:02}"), nodes));
    }
    run_cycle_at(&mut engine, seconds(0));
    let decisions = run_cycle_at(&mut engine, seconds(30));
    (engine, decisions)
}

#[test]
fn at_most_eight_large_gangs_wait_for_nodes_of_a_flavor() {
    let (mut engine, _) = submit_gangs(10, 2);
    assert_eq!(engine.provisioned_gangs().count(), 8);
    for node in ["n0", "n1"] {
        engine.apply_node(pool_node(node, "h100"));
    }
    let decisions = run_cycle_at(&mut engine, seconds(40));
    assert_eq!(decisions.first().map(String::as_str), Some("+w00"));
    assert!(
        decisions.contains(&"$w08 2 h100".to_owned()),
        "{decisions:?}"
    );
    assert_eq!(engine.provisioned_gangs().count(), 8);
}

#[test]
fn at_most_64_gangs_of_one_node_wait_for_nodes_of_a_flavor() {
    let (mut engine, _) = submit_gangs(66, 1);
    assert_eq!(engine.provisioned_gangs().count(), 64);
    engine.apply_gang(growing_gang("large", 2));
    run_cycle_at(&mut engine, seconds(60));
    run_cycle_at(&mut engine, seconds(90));
    assert_eq!(engine.provisioning(&id("large")), None);
}

#[test]
fn queue_says_if_a_gang_evicts_before_nodes_are_provisioned() {
    for after_preemption in [false, true] {
        let mut engine = growing_engine(64);
        let mut queue = growing_queue("default", 1_000, &["h100"]);
        queue.preemption = PreemptionPolicy {
            within_queue: WithinQueuePolicy::LowerPriority,
            ..PreemptionPolicy::default()
        };
        queue.provisioning.after = Duration::ZERO;
        queue.provisioning.after_preemption = after_preemption;
        engine.apply_queue(queue);
        engine.apply_node(pool_node("n0", "h100"));
        engine.apply_gang(growing_gang("low", 1));
        assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+low"]);
        engine.apply_gang(priority(1, growing_gang("high", 1)));
        if after_preemption {
            expect_preemption(&mut engine, seconds(1));
        } else {
            assert_eq!(
                run_cycle_at(&mut engine, seconds(1)),
                ["$high 1 h100", "-high Provisioning"]
            );
        }
    }
}

#[test]
fn gang_evicts_nothing_while_it_waits_to_order_nodes() {
    for (max_nodes, evicts) in [(64, false), (1, true)] {
        let mut engine = growing_engine(max_nodes);
        let mut queue = growing_queue("default", 1_000, &["h100"]);
        queue.preemption.within_queue = WithinQueuePolicy::LowerPriority;
        engine.apply_queue(queue);
        engine.apply_node(pool_node("n0", "h100"));
        engine.apply_gang(growing_gang("low", 1));
        assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+low"]);
        engine.apply_gang(priority(1, growing_gang("high", 1)));
        if evicts {
            expect_preemption(&mut engine, seconds(1));
            continue;
        }
        assert_eq!(
            run_cycle_at(&mut engine, seconds(1)),
            ["-high InsufficientCapacity"]
        );
        assert_eq!(
            run_cycle_at(&mut engine, seconds(31)),
            ["$high 1 h100", "-high Provisioning"]
        );
    }
}

#[test]
fn borrowed_room_on_order_goes_back_to_the_queue_that_owns_the_quota() {
    let mut engine = growing_engine(4);
    let below = |name: &str, gpus| {
        let mut queue = growing_queue(name, gpus, &["h100"]);
        queue.parent = Some(QueueName::new("root"));
        queue.provisioning.scope = ProvisioningScope::Borrowing;
        queue
    };
    engine.apply_queue(growing_queue("root", 0, &["h100"]));
    engine.apply_queue(below("default", 0));
    engine.apply_queue(below("owner", 32));
    submit(&mut engine, growing_gang("w", 4));
    assert!(engine.provisioning(&id("w")).is_some());
    engine.apply_node(pool_node("n0", "h100"));
    assert!(run_cycle_at(&mut engine, seconds(40)).is_empty());
    engine.apply_gang(Gang {
        queue: QueueName::new("owner"),
        ..growing_gang("own", 1)
    });
    assert_eq!(
        run_cycle_at(&mut engine, seconds(41)),
        ["+own", "xw closed", "-w QuotaExceeded"],
        "nodes on order count against quota"
    );
    assert_eq!(engine.provisioning(&id("w")), None);
}

#[test]
fn order_ends_if_its_gang_would_need_more_nodes_than_the_flavor_may_have() {
    let mut engine = growing_engine(4);
    engine.apply_node(pool_node("n0", "h100"));
    submit(&mut engine, growing_gang("w", 4));
    assert_eq!(engine.provisioning(&id("w")).unwrap().progress(), (3, 0));
    engine.apply_gang(priority(1, growing_gang("first", 1)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(40)),
        ["+first", "xw closed", "-w ExceedsCluster"]
    );
    engine.delete_gang(&id("first"));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(50)),
        ["-w ExceedsCluster"],
        "a pause is the obstacle to new nodes now"
    );
    let next = engine.next_wakeup().unwrap();
    assert_eq!(
        run_cycle_at(&mut engine, next),
        ["$w 3 h100", "-w Provisioning"],
        "the flavor has no back-off"
    );
}
