//! Tests of reserved quota, and of unusual input.

use std::time::Duration;

use crate::backfill::{
    MINUTE, cycle_at, engine_with_blocked_head, gpu_gang, reservation_start, submitted_at,
    whole_node_gang, with_runtime,
};
use crate::common::*;
use trellis_scheduler::{Gang, NodeName, ResourceName, Time};

#[test]
fn quota_is_reserved_without_nodes() {
    let mut engine = engine(gpu_nodes(4));
    engine.apply_queue(queue("default", Some(&[(GPU, 16), ("cpu", 1_000_000)])));
    engine.apply_gang(gpu_gang("a", 8, Some(10)));
    engine.apply_gang(gpu_gang("b", 4, Some(20)));
    engine.apply_gang(submitted_at(
        1,
        with_runtime(workers("head", 2, gpu(1, 6)), Some(10)),
    ));
    engine.apply_gang(submitted_at(2, gpu_gang("beside", 4, Some(30))));
    engine.apply_gang(submitted_at(2, gpu_gang("brief", 2, Some(10))));
    let said = cycle_at(&mut engine, 0);
    // When `a` has ended at minute 10, the quota has 12 free GPUs, including 4 that are free now.
    let expected = [
        "+a",
        "+b",
        "+brief",
        "-head QuotaExceeded",
        "-beside QuotaExceeded",
    ];
    assert_eq!(said, expected);
    assert_eq!(engine.reservations().count(), 0);
    engine.delete_gang(&id("brief"));
    assert_eq!(cycle_at(&mut engine, 1), ["-beside Reserved"]);
    assert_eq!(
        engine.explanation(&id("beside")).unwrap().to_string(),
        "there is quota, but \"team/head\" waits before it in queue \"default\": \
         that is expected to start at 1970-01-01T00:10:00Z"
    );
    // The gang requests less, so there is enough for both.
    engine.apply_gang(submitted_at(1, gpu_gang("head", 8, Some(10))));
    assert_eq!(cycle_at(&mut engine, 2), ["+beside"]);
}

#[test]
fn quota_head_with_unknown_start_blocks_gangs_that_are_not_preemptible() {
    let mut engine = engine(gpu_nodes(4));
    engine.apply_queue(queue("default", Some(&[(GPU, 16), ("cpu", 1_000_000)])));
    engine.apply_gang(gpu_gang("a", 8, None));
    engine.apply_gang(gpu_gang("b", 4, Some(15)));
    engine.apply_gang(submitted_at(
        1,
        with_runtime(workers("head", 2, gpu(1, 7)), Some(10)),
    ));
    let mut kept = submitted_at(2, gpu_gang("kept", 4, Some(1)));
    kept.preemptible = false;
    engine.apply_gang(kept);
    engine.apply_gang(submitted_at(3, gpu_gang("small", 1, None)));
    let said = cycle_at(&mut engine, 0);
    assert_eq!(
        said,
        [
            "+a",
            "+b",
            "+small",
            "-head QuotaExceeded",
            "-kept QuotaExceeded"
        ]
    );
    engine.delete_gang(&id("small"));
    assert_eq!(cycle_at(&mut engine, 1), ["-kept Reserved"]);
    engine.apply_gang(submitted_at(12, gpu_gang("late", 3, None)));
    assert_eq!(
        cycle_at(&mut engine, 12),
        ["-late Reserved"],
        "the head has waited long enough"
    );
    // The gangs have not ended in time, so the start is now unknown.
    assert_eq!(engine.next_wakeup(), Some(ms(15 * MINUTE + 1)));
    engine.delete_gang(&id("a"));
    engine.delete_gang(&id("b"));
    assert_eq!(cycle_at(&mut engine, 13)[0], "+head");
}

/// Returns a gang of device shares that runs for this many minutes.
fn share_gang(name: &str, count: u32, thousandths: i64, minutes: u64) -> Gang {
    let mut request = cpu(1);
    let resource = ResourceName::share_of(&ResourceName::new(GPU));
    request.set(resource, thousandths);
    with_runtime(workers(name, count, request), Some(minutes))
}

#[test]
fn all_shared_devices_on_the_nodes_of_a_head_are_reserved() {
    // Gangs share GPUs, so it is unknown which GPU becomes free.
    let mut engine = engine([gpu_node("a", 2)]);
    engine.apply_gang(share_gang("runs", 1, 600, 10));
    engine.apply_gang(submitted_at(1, share_gang("head", 2, 800, 10)));
    engine.apply_gang(submitted_at(2, share_gang("late", 1, 300, 20)));
    engine.apply_gang(submitted_at(2, share_gang("soon", 1, 300, 8)));
    let said = cycle_at(&mut engine, 0);
    assert_eq!(
        said,
        [
            "+runs",
            "+soon",
            "-head InsufficientCapacity",
            "-late Reserved"
        ]
    );
    assert_eq!(reservation_start(&engine, "head"), Some(10));
    engine.delete_gang(&id("soon"));
    engine.delete_gang(&id("runs"));
    assert_eq!(cycle_at(&mut engine, 10)[0], "+head");
    // 200 thousandths of each GPU are left.
    assert_eq!(free_amount(&engine, "a", GPU), 0);
}

#[test]
fn head_starts_when_the_gangs_on_shared_devices_have_ended() {
    let mut engine = engine(gpu_nodes(8));
    for n in 0..64 {
        engine.apply_gang(share_gang(&format!("runs{n}"), 1, 600, 10));
    }
    engine.apply_gang(submitted_at(1, whole_node_gang("head", 8, None)));
    cycle_at(&mut engine, 0);
    assert_eq!(engine.placed_gang_count(), 64);
    assert_eq!(reservation_start(&engine, "head"), Some(10));
}

#[test]
fn head_gets_a_reservation_with_extreme_runtimes_and_times() {
    let day = Duration::from_secs(86_400);
    for (runtime, grace) in [
        (Duration::ZERO, Duration::ZERO),
        (Duration::MAX, Duration::ZERO),
        (Duration::ZERO, Duration::MAX),
        (Duration::MAX, Duration::MAX),
        (day, day),
    ] {
        let mut engine = engine(gpu_nodes(2));
        let odd = |mut gang: Gang| {
            gang.runtime = Some(runtime);
            gang.grace = grace;
            gang
        };
        engine.apply_gang(odd(whole_node_gang("runs", 1, None)));
        engine.apply_gang(submitted_at(1, odd(whole_node_gang("head", 2, None))));
        engine.apply_gang(submitted_at(2, odd(gpu_gang("small", 1, None))));
        for now in [i64::MIN, 0, 1, MINUTE, i64::MAX] {
            engine.cycle(Time::from_millis(now));
            engine.cycle(Time::from_millis(now));
            assert!(engine.reservation(&id("head")).is_some());
        }
    }
    let mut nowhere = engine([]);
    nowhere.apply_gang(whole_node_gang("head", 2, Some(1)));
    nowhere.cycle(ms(0));
    assert_eq!(nowhere.reservations().count(), 0);
    let mut none = engine(gpu_nodes(1));
    none.apply_queue(queue("default", Some(&[(GPU, 0), ("cpu", 0)])));
    none.apply_gang(whole_node_gang("head", 1, Some(1)));
    none.apply_gang(whole_node_gang("empty", 0, Some(1)));
    assert_eq!(cycle(&mut none), ["+empty", "-head ExceedsQuota"]);
    // The nodes of a reservation disappear, and come back.
    let mut engine = engine_with_blocked_head();
    for i in 0..4 {
        engine.delete_node(&NodeName::new(format!("n{i:02}")));
    }
    cycle_at(&mut engine, 2);
    assert_eq!(engine.reservations().count(), 0);
    for node in gpu_nodes(4) {
        engine.apply_node(node);
    }
    cycle_at(&mut engine, 3);
    assert_eq!(reservation_start(&engine, "head"), Some(61));
}

/// Gangs hold 24 GPUs of a quota that was lowered to 8. An end that does not bring the queue below
/// its quota gives no quota to the head.
#[test]
fn head_gets_quota_once_usage_is_below_a_lowered_quota() {
    let mut engine = engine(gpu_nodes(4));
    let quota = |gpus| queue("default", Some(&[(GPU, gpus), ("cpu", 40_000)]));
    engine.apply_queue(quota(32));
    engine.apply_gang(gpu_gang("first", 8, Some(1)));
    engine.apply_gang(with_runtime(workers("second", 2, gpu(1, 8)), Some(100)));
    cycle_at(&mut engine, 0);
    engine.apply_queue(quota(8));
    engine.apply_gang(submitted_at(1, workers("head", 1, gpu(30, 4))));
    engine.apply_gang(submitted_at(
        2,
        with_runtime(workers("cores", 1, cpu(20)), Some(50)),
    ));
    engine.apply_gang(submitted_at(
        2,
        with_runtime(workers("long", 1, cpu(20)), Some(150)),
    ));
    let said = cycle_at(&mut engine, 0);
    let expected = ["+cores", "-head QuotaExceeded", "-long QuotaExceeded"];
    assert_eq!(said, expected);
    engine.delete_gang(&id("cores"));
    assert_eq!(cycle_at(&mut engine, 1), ["-long Reserved"]);
    let told = engine.explanation(&id("long")).unwrap().to_string();
    assert!(told.contains("T01:40:00Z"), "{told}");
}
