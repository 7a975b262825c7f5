//! Tests of the end of provisioning, and of a new leader.

use super::*;
use crate::snapshots::restored_engine;
use trellis_scheduler::{
    Forecast, GroupFlavors, GroupName, QueueStop, Resources, Taint, TaintEffect,
};

#[test]
fn nodes_that_do_not_come_in_time_are_given_up_and_the_next_flavor_is_tried() {
    let mut engine = growing_engine(64);
    engine.apply_flavor(growing_flavor("a100", 64));
    let mut queue = growing_queue("default", 1_000, &["h100", "a100"]);
    // The queue waits for longer than the first back-off of a flavor.
    queue.provisioning.after = Duration::from_secs(300);
    engine.apply_queue(queue);
    engine.apply_gang(growing_gang("w", 2));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(0)),
        ["-w NoMatchingNodes"]
    );
    assert_eq!(
        run_cycle_at(&mut engine, seconds(300)),
        ["$w 2 h100", "-w Provisioning"]
    );
    assert!(run_cycle_at(&mut engine, seconds(299 + TIMEOUT)).is_empty());
    assert_eq!(engine.next_wakeup(), Some(seconds(300 + TIMEOUT)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(300 + TIMEOUT)),
        ["xw late", "-w NoMatchingNodes"]
    );
    let used = engine.queue_usage(&QueueName::new("default"));
    assert!(used.values().all(|used| *used == 0), "{used:?}");
    let again = engine.next_wakeup().unwrap();
    assert_eq!(
        run_cycle_at(&mut engine, again),
        ["$w 2 a100", "-w Provisioning"]
    );
}

#[test]
fn flavor_is_tried_again_after_its_back_off() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 2));
    let end = seconds(30 + TIMEOUT);
    assert_eq!(
        run_cycle_at(&mut engine, end),
        ["xw late", "-w NoMatchingNodes"]
    );
    let mut cycles = Vec::new();
    while engine.provisioning(&id("w")).is_none() {
        let next = engine.next_wakeup().unwrap();
        run_cycle_at(&mut engine, next);
        cycles.push(next.since(end).as_secs());
    }
    assert_eq!(cycles, [60]);
}

#[test]
fn back_off_of_a_flavor_does_not_end_the_orders_of_other_gangs() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 2));
    submit_at(&mut engine, 100, growing_gang("z", 2));
    let late = run_cycle_at(&mut engine, seconds(30 + TIMEOUT));
    assert_eq!(late, ["xw late", "-w NoMatchingNodes"]);
    engine.apply_node(pool_node("n0", "h100"));
    run_cycle_at(&mut engine, seconds(40 + TIMEOUT));
    assert_eq!(engine.provisioning(&id("z")).unwrap().progress(), (2, 1));
}

#[test]
fn nodes_stand_idle_only_for_a_limited_time() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 3));
    engine.apply_node(pool_node("n0", "h100"));
    assert!(run_cycle_at(&mut engine, seconds(100)).is_empty());
    engine.apply_node(pool_node("n1", "h100"));
    assert!(run_cycle_at(&mut engine, seconds(400)).is_empty());
    assert_eq!(engine.next_wakeup(), Some(seconds(100 + IDLE)));
    let decisions = run_cycle_at(&mut engine, seconds(100 + IDLE));
    assert_eq!(decisions.first().map(String::as_str), Some("xw late"));
    // The nodes are free for other gangs.
    engine.apply_gang(growing_gang("other", 2));
    assert_eq!(run_cycle_at(&mut engine, seconds(101 + IDLE)), ["+other"]);
}

/// An old node joins the order once its gang has ended. It does not tell when the new nodes come.
#[test]
fn old_node_that_becomes_free_does_not_limit_the_time_of_an_order() {
    let mut engine = growing_engine(64);
    engine.apply_node(pool_node("old", "h100"));
    engine.apply_gang(growing_gang("before", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+before"]);
    submit_at(&mut engine, 10, growing_gang("w", 3));
    engine.delete_gang(&id("before"));
    assert!(run_cycle_at(&mut engine, seconds(100)).is_empty());
    let provisioning = engine.provisioning(&id("w")).unwrap();
    assert_eq!(provisioning.progress(), (3, 1), "two new nodes are missing");
    assert_eq!(engine.next_wakeup(), Some(seconds(40 + TIMEOUT)));
    engine.apply_node(pool_node("new", "h100"));
    assert!(run_cycle_at(&mut engine, seconds(200)).is_empty());
    assert_eq!(engine.next_wakeup(), Some(seconds(200 + IDLE)));
}

#[test]
fn order_for_which_the_autoscaler_adds_no_nodes_ends_in_the_next_cycle() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 2));
    engine.fail_provisioning(&id("w"));
    engine.fail_provisioning(&id("unknown"));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(40)),
        ["xw late", "-w NoMatchingNodes"]
    );
    assert!(run_cycle_at(&mut engine, seconds(99)).is_empty());
    assert_eq!(
        run_cycle_at(&mut engine, seconds(100)),
        ["$w 2 h100", "-w Provisioning"],
        "the flavor is tried again after its back-off"
    );
}

#[test]
fn order_ends_if_its_gang_may_no_longer_have_nodes_of_the_flavor() {
    let mut engine = growing_engine(64);
    engine.apply_flavor(growing_flavor("a100", 64));
    engine.apply_queue(growing_queue("default", 1_000, &["h100", "a100"]));
    submit(&mut engine, growing_gang("w", 2));
    let denied = |flavors: &[&str]| Gang {
        denied_flavors: flavors
            .iter()
            .map(|name| (FlavorName::new(*name), "a policy denies it".to_owned()))
            .collect(),
        ..growing_gang("w", 2)
    };
    engine.apply_gang(denied(&["a100"]));
    assert!(run_cycle_at(&mut engine, seconds(40)).is_empty());
    engine.apply_gang(denied(&["h100"]));
    let decisions = run_cycle_at(&mut engine, seconds(41));
    assert_eq!(decisions.first().map(String::as_str), Some("xw closed"));
    let next = engine.next_wakeup().unwrap();
    assert_eq!(
        run_cycle_at(&mut engine, next),
        ["$w 2 a100", "-w Provisioning"]
    );
    engine.apply_gang(denied(&["a100", "h100"]));
    let decisions = run_cycle_at(&mut engine, next.plus(Duration::from_secs(1)));
    assert_eq!(decisions.first().map(String::as_str), Some("xw closed"));
    while let Some(at) = engine.next_wakeup() {
        let decisions = run_cycle_at(&mut engine, at);
        assert!(decisions.is_empty(), "no nodes follow: {decisions:?}");
    }
}

#[test]
fn provisioning_ends_when_its_queue_is_stopped() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 2));
    let mut stopped = growing_queue("default", 1_000, &["h100"]);
    stopped.stop = QueueStop::Hold;
    engine.apply_queue(stopped);
    assert_eq!(
        run_cycle_at(&mut engine, seconds(31)),
        ["xw closed", "-w QueueStopped"]
    );
    engine.apply_queue(growing_queue("default", 1_000, &["h100"]));
    run_cycle_at(&mut engine, seconds(40));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(70)),
        ["$w 2 h100", "-w Provisioning"],
        "the flavor has no back-off, because it was not late"
    );
}

#[test]
fn new_leader_continues_the_provisioning_of_its_predecessor() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 2));
    let before = engine.provisioning(&id("w")).cloned().unwrap();
    let mut leader = growing_engine(64);
    leader.apply_node(pool_node("n0", "h100"));
    leader.apply_gang(growing_gang("w", 2));
    leader.apply_gang(growing_gang("z", 1));
    let flavors = [GroupFlavors {
        group: GroupName::new("worker"),
        flavors: ["cpu", "pods", GPU]
            .map(|resource| (ResourceName::new(resource), FlavorName::new("h100")))
            .into(),
    }];
    leader.restore_provisioning(&id("w"), &flavors, before.clone());
    assert_eq!(
        run_cycle_at(&mut leader, seconds(60)),
        ["-w Provisioning", "-z InsufficientCapacity"]
    );
    let after = leader.provisioning(&id("w")).unwrap();
    assert_eq!((after.since, after.timeout), (before.since, before.timeout));
    assert_eq!(after.progress(), (2, 1));
}

#[test]
fn provisioning_survives_a_snapshot() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 3));
    engine.apply_node(pool_node("n0", "h100"));
    run_cycle_at(&mut engine, seconds(100));
    let mut twin = restored_engine(&engine).unwrap();
    for engine in [&mut engine, &mut twin] {
        assert_eq!(engine.provisioning(&id("w")).unwrap().progress(), (3, 1));
        let end = seconds(100 + IDLE);
        assert_eq!(run_cycle_at(engine, end), ["xw late", "-w ExceedsCluster"]);
    }
    let mut twin = restored_engine(&engine).unwrap();
    for engine in [&mut engine, &mut twin] {
        assert!(run_cycle_at(engine, seconds(101 + IDLE)).is_empty());
        // The back-off of 60 s is part of the snapshot.
        assert_eq!(engine.next_wakeup(), Some(seconds(100 + IDLE + 60)));
    }
}

#[test]
fn start_on_new_nodes_is_predicted_from_their_usual_time() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 2));
    let predicted = |engine: &Engine| {
        let forecast = Forecast::from_snapshot(&engine.snapshot(), |moments| moments < 100);
        assert_eq!(forecast.cut_off, None);
        forecast.starts.get(&id("w")).copied()
    };
    assert_eq!(predicted(&engine), None);
    let mut flavor = growing_flavor("h100", 64);
    if let Some(growth) = &mut flavor.growth {
        growth.usual = Some(Duration::from_secs(300));
    }
    engine.apply_flavor(flavor);
    assert_eq!(predicted(&engine), Some(seconds(330)));
}

/// The flavor then has all nodes that it may have, and the gang still needs the last of them.
#[test]
fn order_for_the_last_nodes_of_a_flavor_waits_until_they_are_usable() {
    let unready = |mut node: Node| {
        node.ready = false;
        node
    };
    let without_device = |mut node: Node| {
        node.allocatable = Resources::new().with("cpu", 64_000).with("pods", 110);
        node
    };
    let tainted = |mut node: Node| {
        node.taints = vec![Taint {
            key: "network-not-ready".to_owned(),
            value: String::new(),
            effect: TaintEffect::NoSchedule,
        }];
        node
    };
    let states: [&dyn Fn(Node) -> Node; 3] = [&unready, &without_device, &tainted];
    for change in states {
        let mut engine = growing_engine(2);
        submit(&mut engine, growing_gang("w", 2));
        engine.apply_node(pool_node("n0", "h100"));
        engine.apply_node(change(pool_node("n1", "h100")));
        assert!(run_cycle_at(&mut engine, seconds(40)).is_empty());
        assert_eq!(engine.provisioning(&id("w")).unwrap().progress(), (2, 1));
        engine.apply_node(pool_node("n1", "h100"));
        assert_eq!(run_cycle_at(&mut engine, seconds(50)), ["+w"]);
    }
}
