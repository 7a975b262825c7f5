//! Tests of which gangs may start ahead of the first gang that waits for room: the textbook cases.

pub(super) mod edge_cases;
pub(super) mod ends;
pub(super) mod heads;
pub(super) mod lent_quota;
pub(super) mod runs;

use std::time::Duration;

use crate::common::*;
use trellis_scheduler::{
    Decision, Engine, Gang, NodeName, Queue, QueueName, Reservation, WaitReason,
};

pub const MINUTE: i64 = 60_000;

/// Returns a gang of whole nodes that runs for this many minutes.
pub fn whole_node_gang(name: &str, nodes: u32, minutes: Option<u64>) -> Gang {
    with_runtime(workers(name, nodes, gpu(8, 8)), minutes)
}

/// Returns a gang of one pod with this many GPUs that runs for this many minutes.
pub fn gpu_gang(name: &str, gpus: i64, minutes: Option<u64>) -> Gang {
    with_runtime(workers(name, 1, gpu(1, gpus)), minutes)
}

pub fn with_runtime(mut gang: Gang, minutes: Option<u64>) -> Gang {
    gang.runtime = minutes.map(|m| Duration::from_secs(60 * m));
    gang
}

/// Sets the submission time of a gang.
pub fn submitted_at(minute: i64, mut gang: Gang) -> Gang {
    gang.submitted = ms(minute * MINUTE);
    gang
}

pub fn cycle_at(engine: &mut Engine, minute: i64) -> Vec<String> {
    format_decisions(&engine.cycle(ms(minute * MINUTE)))
}

pub fn reservation_start(engine: &Engine, gang: &str) -> Option<i64> {
    let start = engine.reservation(&id(gang)).expect("it is a head").start?;
    Some(start.as_millis() / MINUTE)
}

fn reserved_nodes(reservation: &Reservation) -> Vec<&str> {
    let pods = reservation.placement.iter();
    let mut nodes: Vec<&str> = pods.map(|(_, _, node)| node.as_str()).collect();
    nodes.dedup();
    nodes
}

/// Returns an engine with four nodes. `long` holds two for an hour and `short` one for ten minutes.
/// `head` needs three.
pub fn engine_with_blocked_head() -> Engine {
    let mut engine = engine(gpu_nodes(4));
    engine.apply_gang(submitted_at(0, whole_node_gang("long", 2, Some(60))));
    engine.apply_gang(submitted_at(0, whole_node_gang("short", 1, Some(10))));
    engine.apply_gang(submitted_at(1, whole_node_gang("head", 3, Some(30))));
    let said = cycle_at(&mut engine, 1);
    assert_eq!(said, ["+long", "+short", "-head InsufficientCapacity"]);
    engine
}

#[test]
fn head_starts_when_enough_gangs_have_ended() {
    let mut engine = engine_with_blocked_head();
    assert_eq!(
        reservation_start(&engine, "head"),
        Some(61),
        "one of the two is enough"
    );
    let kept: Vec<_> = engine.reservations().cloned().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(reserved_nodes(&kept[0]).len(), 3);
    engine.delete_gang(&id("long"));
    assert_eq!(cycle_at(&mut engine, 5), ["+head"], "it ended early");
    assert_eq!(engine.reservation(&id("head")), None);
}

#[test]
fn gang_that_ends_before_the_head_starts_may_use_any_node() {
    let mut engine = engine_with_blocked_head();
    engine.apply_gang(submitted_at(2, whole_node_gang("fits", 1, Some(59))));
    assert_eq!(cycle_at(&mut engine, 2), ["+fits"]);
    assert_eq!(reservation_start(&engine, "head"), Some(61));
}

#[test]
fn gang_that_ends_after_the_head_starts_avoids_reserved_room() {
    let mut engine = engine_with_blocked_head();
    engine.apply_gang(submitted_at(2, whole_node_gang("late", 1, Some(60))));
    // The end of `long` frees two nodes, and the end of `short` a third. The engine does not
    // reserve the fourth.
    assert_eq!(cycle_at(&mut engine, 2), ["+late"]);
    assert_eq!(reservation_start(&engine, "head"), Some(61));
    engine.delete_gang(&id("short"));
    engine.apply_gang(submitted_at(3, whole_node_gang("later", 1, Some(59))));
    assert_eq!(cycle_at(&mut engine, 3), ["-later Reserved"]);
    let explanation = engine.explanation(&id("later")).unwrap();
    assert_eq!(
        explanation.to_string(),
        "there is room, but \"team/head\" waits before it: that is expected to start at \
         1970-01-01T01:01:00Z, on 3 nodes"
    );
    engine.apply_gang(submitted_at(4, whole_node_gang("in-time", 1, Some(57))));
    let said = cycle_at(&mut engine, 4);
    assert_eq!(said, ["+in-time", "-later InsufficientCapacity"]);
    assert_eq!(reservation_start(&engine, "head"), Some(61));
}

#[test]
fn grace_period_counts_as_runtime() {
    let mut engine = engine_with_blocked_head();
    let mut gang = submitted_at(2, whole_node_gang("graceful", 2, Some(59)));
    gang.grace = Duration::from_millis(1);
    engine.delete_gang(&id("short"));
    engine.apply_gang(gang.clone());
    assert_eq!(cycle_at(&mut engine, 2), ["-graceful Reserved"]);
    gang.grace = Duration::ZERO;
    engine.apply_gang(gang);
    assert_eq!(cycle_at(&mut engine, 2), ["+graceful"]);
}

#[test]
fn room_beyond_the_reservation_is_free_for_other_gangs() {
    // The head needs 6 of 8 GPUs of each of two nodes.
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(gpu_gang("a", 4, Some(10)));
    engine.apply_gang(submitted_at(
        1,
        with_runtime(workers("head", 2, gpu(1, 6)), Some(60)),
    ));
    assert_eq!(cycle_at(&mut engine, 1), ["+a", "-head Fragmented"]);
    assert_eq!(reservation_start(&engine, "head"), Some(11));
    // On the node of `a` the engine reserves only 2 GPUs besides those of `a`, on the other node 6.
    for (name, gpus) in [("b", 2), ("c", 2), ("d", 1)] {
        engine.apply_gang(submitted_at(2, gpu_gang(name, gpus, None)));
    }
    let said = cycle_at(&mut engine, 2);
    assert_eq!(
        said,
        ["+b", "+c", "-head InsufficientCapacity", "-d Reserved"]
    );
    assert_eq!(reservation_start(&engine, "head"), Some(11));
    engine.delete_gang(&id("a"));
    assert_eq!(
        cycle_at(&mut engine, 11),
        ["+head", "-d InsufficientCapacity"]
    );
}

#[test]
fn head_with_unknown_start_blocks_gangs_that_are_not_preemptible() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(whole_node_gang("open", 1, None));
    engine.apply_gang(submitted_at(1, whole_node_gang("head", 2, None)));
    let kept = |p: bool, name: &str| {
        let mut gang = submitted_at(2, whole_node_gang(name, 1, None));
        gang.preemptible = p;
        gang
    };
    engine.apply_gang(kept(false, "kept"));
    let said = cycle_at(&mut engine, 2);
    assert_eq!(
        said,
        ["+open", "-head InsufficientCapacity", "-kept Reserved"]
    );
    assert_eq!(reservation_start(&engine, "head"), None);
    assert_eq!(
        engine.explanation(&id("kept")).unwrap().to_string(),
        "there is room, but \"team/head\" waits before it: when that starts is not known, on 2 nodes"
    );
    engine.apply_gang(kept(true, "free"));
    assert_eq!(
        cycle_at(&mut engine, 3),
        ["+free", "-kept InsufficientCapacity"]
    );
    // Ten minutes after the submission of the head, no gang may start on its nodes.
    engine.delete_gang(&id("free"));
    engine.apply_gang(kept(true, "late"));
    assert_eq!(
        cycle_at(&mut engine, 11),
        ["-kept Reserved", "-late Reserved"]
    );
    engine.delete_gang(&id("open"));
    let said = cycle_at(&mut engine, 12);
    assert_eq!(said[0], "+head");
}

#[test]
fn queue_without_backfill_waits_on_nodes_of_a_head() {
    let mut engine = engine((0..2).flat_map(|i| {
        let pool = |name: &str| label(gpu_node(&format!("{name}{i}"), 8), "pool", name);
        [pool("a"), pool("b")]
    }));
    let strict = Queue {
        backfill: false,
        ..queue("default", None)
    };
    engine.apply_queue(strict);
    let in_pool = |mut gang: Gang, pool: &str| {
        for group in &mut gang.groups {
            let selector = &mut group.constraints.node_selector;
            selector.insert("pool".to_owned(), pool.to_owned());
        }
        gang
    };
    engine.apply_gang(in_pool(whole_node_gang("runs", 1, Some(60)), "a"));
    engine.apply_gang(in_pool(
        submitted_at(1, whole_node_gang("head", 2, Some(60))),
        "a",
    ));
    engine.apply_gang(in_pool(submitted_at(2, gpu_gang("brief", 1, Some(1))), "a"));
    engine.apply_gang(in_pool(
        submitted_at(2, gpu_gang("elsewhere", 1, Some(1))),
        "b",
    ));
    let said = cycle_at(&mut engine, 2);
    let expected = [
        "+runs",
        "+elsewhere",
        "-head InsufficientCapacity",
        "-brief Reserved",
    ];
    assert_eq!(said, expected);
    engine.apply_queue(queue("default", None));
    assert_eq!(cycle_at(&mut engine, 2), ["+brief"]);
}

#[test]
fn each_node_pool_has_its_own_head() {
    let mut engine = engine(["a", "b"].map(|p| label(gpu_node(p, 8), "pool", p)));
    let on = |mut gang: Gang, pool: &str| {
        for group in &mut gang.groups {
            let selector = &mut group.constraints.node_selector;
            selector.insert("pool".to_owned(), pool.to_owned());
        }
        gang
    };
    for pool in ["a", "b"] {
        engine.apply_gang(on(gpu_gang(&format!("runs-{pool}"), 5, Some(20)), pool));
        for (order, name) in [(1, "head"), (2, "second")] {
            engine.apply_gang(on(
                submitted_at(order, whole_node_gang(&format!("{name}-{pool}"), 1, None)),
                pool,
            ));
        }
    }
    engine.apply_gang(submitted_at(3, whole_node_gang("both", 2, None)));
    engine.apply_gang(submitted_at(4, gpu_gang("any", 3, Some(21))));
    let decisions = engine.cycle(ms(4 * MINUTE));
    let reserved: Vec<&str> = decisions
        .iter()
        .filter_map(|d| match d {
            Decision::Reserve { gang, .. } => Some(gang.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(reserved, ["team/head-a", "team/head-b"]);
    assert_eq!(wait_reason(&engine, "any"), Some(WaitReason::Reserved));
    // The engine reports the reservation once.
    engine.apply_gang(submitted_at(5, gpu_gang("brief", 3, Some(15))));
    let decisions = engine.cycle(ms(5 * MINUTE));
    assert!(
        matches!(decisions.as_slice(), [Decision::Place { .. }]),
        "{decisions:?}"
    );
}

#[test]
fn gang_that_can_never_start_gets_no_reservation() {
    let mut engine = engine(gpu_nodes(2));
    apply_pod(&mut engine, "x/others", "n01", gpu(1, 8));
    engine.apply_gang(submitted_at(0, whole_node_gang("too-large", 3, None)));
    engine.apply_gang(submitted_at(0, whole_node_gang("beside-others", 2, None)));
    engine.apply_gang(submitted_at(1, whole_node_gang("fits", 1, None)));
    let said = cycle_at(&mut engine, 20);
    assert_eq!(said[0], "+fits");
    assert_eq!(engine.reservations().count(), 0);
}

#[test]
fn late_gang_has_no_known_end() {
    let mut engine = engine_with_blocked_head();
    engine.apply_gang(submitted_at(2, whole_node_gang("next", 1, Some(200))));
    engine.cycle(ms(2 * MINUTE));
    assert_eq!(reservation_start(&engine, "head"), Some(61));
    let late = ms(11 * MINUTE + 1);
    assert_eq!(
        engine.next_wakeup(),
        Some(late),
        "`short` ends, or has no known end"
    );
    engine.cycle(late);
    assert_eq!(
        reservation_start(&engine, "head"),
        Some(202),
        "two end at 61, the third is `next`"
    );
    assert_eq!(engine.next_wakeup(), Some(ms(61 * MINUTE + 1)));
    engine.cycle(ms(61 * MINUTE));
    assert_eq!(
        reservation_start(&engine, "head"),
        Some(202),
        "what ends now is not late"
    );
    engine.cycle(ms(61 * MINUTE + 1));
    assert_eq!(reservation_start(&engine, "head"), None);
    engine.cycle(ms(203 * MINUTE));
    assert_eq!(engine.next_wakeup(), None);
}

#[test]
fn default_runtime_of_a_queue_applies_to_its_gangs() {
    let mut engine = engine(gpu_nodes(2));
    let mut default = queue("default", None);
    default.default_runtime = Some(Duration::from_secs(600));
    engine.apply_queue(default.clone());
    engine.apply_gang(whole_node_gang("runs", 1, None));
    engine.apply_gang(submitted_at(1, whole_node_gang("head", 2, None)));
    engine.apply_gang(submitted_at(2, whole_node_gang("same", 1, None)));
    engine.apply_gang(submitted_at(2, whole_node_gang("longer", 1, Some(11))));
    cycle_at(&mut engine, 0);
    assert_eq!(reservation_start(&engine, "head"), Some(10));
    assert_eq!(
        engine.placement(&id("same")).map(|p| p.pod_count()),
        Some(1)
    );
    default.default_runtime = None;
    engine.apply_queue(default);
    cycle_at(&mut engine, 1);
    assert_eq!(reservation_start(&engine, "head"), None);
}

#[test]
fn head_of_unlike_groups_gets_a_reservation() {
    // Each group alone would fit as soon as `a` has ended. Both fit only after `b` has ended.
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(whole_node_gang("a", 1, Some(10)));
    engine.apply_gang(submitted_at(0, whole_node_gang("b", 1, Some(20))));
    let head = vec![group("x", 1, gpu(1, 6)), group("y", 1, gpu(2, 5))];
    engine.apply_gang(submitted_at(1, gang("head", head)));
    cycle_at(&mut engine, 1);
    assert_eq!(reservation_start(&engine, "head"), Some(20 + 1));
    let reservation = engine.reservation(&id("head")).unwrap();
    assert_eq!(
        format_placement(&reservation.placement),
        "x: n00*1, y: n01*1"
    );
}

#[test]
fn ended_pods_free_no_room_for_the_head_at_gang_end() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_gang(with_runtime(workers("runs", 2, gpu(1, 3)), Some(10)));
    engine.apply_gang(submitted_at(1, gpu_gang("head", 8, None)));
    cycle_at(&mut engine, 0);
    for index in 0..2 {
        engine.apply_pod(worker_key("runs", index), NodeName::new("n00"), gpu(1, 3));
    }
    engine.delete_pod(&worker_key("runs", 0));
    cycle_at(&mut engine, 1);
    assert_eq!(reservation_start(&engine, "head"), Some(10));
    // An external pod took its room: the end of `runs` does not suffice.
    apply_pod(&mut engine, "x/others", "n00", gpu(1, 3));
    cycle_at(&mut engine, 2);
    assert_eq!(engine.reservation(&id("head")), None);
}

#[test]
fn heads_of_several_queues_follow_the_turns() {
    // `busy` has the higher usage, so `idle` goes before it and takes the room that it waits for.
    let mut engine = engine(gpu_nodes(2));
    for name in ["busy", "idle"] {
        engine.apply_queue(Queue::new(QueueName::new(name)));
    }
    let of = |queue: &str, mut gang: Gang| {
        gang.queue = QueueName::new(queue);
        gang
    };
    engine.apply_gang(of("busy", gpu_gang("runs", 8, Some(10))));
    engine.apply_gang(of(
        "busy",
        submitted_at(1, whole_node_gang("head", 2, None)),
    ));
    assert_eq!(cycle_at(&mut engine, 0).len(), 2);
    engine.apply_gang(of("busy", submitted_at(2, gpu_gang("behind", 1, None))));
    engine.apply_gang(of("idle", submitted_at(2, gpu_gang("first", 8, None))));
    let said = cycle_at(&mut engine, 0);
    assert_eq!(said, ["+first", "-behind InsufficientCapacity"]);
    engine.delete_gang(&id("first"));
    engine.apply_gang(of("idle", submitted_at(0, gpu_gang("eight", 8, None))));
    let mut later = of("idle", submitted_at(3, gpu_gang("nine", 1, None)));
    later.preemptible = false;
    engine.apply_gang(later);
    let said = cycle_at(&mut engine, 1);
    assert_eq!(said[0], "+eight");
}
