//! Tests of ends that differ from the known ends: runtimes change while gangs run, and a preemptor
//! runs from the time when its victims are gone.

use std::time::Duration;

use crate::backfill::{
    MINUTE, cycle_at, engine_with_blocked_head, gpu_gang, reservation_start, submitted_at,
    whole_node_gang,
};
use crate::common::*;
use crate::snapshots::restored_engine;
use trellis_scheduler::{Gang, PreemptionPolicy, Queue, QueueName, WithinQueuePolicy};

fn minutes(minutes: u64) -> Option<Duration> {
    Some(Duration::from_secs(60 * minutes))
}

#[test]
fn corrected_runtime_moves_the_reservation_at_once() {
    let mut engine = engine_with_blocked_head();
    engine.apply_gang(submitted_at(2, whole_node_gang("late", 1, Some(70))));
    engine.delete_gang(&id("short"));
    // Two nodes are free, three are reserved.
    let said = cycle_at(&mut engine, 2);
    assert_eq!(
        said,
        ["+late"],
        "one of the two that the head does not need"
    );
    engine.delete_gang(&id("late"));
    engine.apply_gang(submitted_at(3, whole_node_gang("kept", 2, Some(70))));
    assert_eq!(cycle_at(&mut engine, 3), ["-kept Reserved"]);
    let mut long = submitted_at(0, whole_node_gang("long", 2, Some(90)));
    engine.apply_gang(long.clone());
    assert_eq!(cycle_at(&mut engine, 4), ["+kept"], "it ends in time now");
    assert_eq!(reservation_start(&engine, "head"), Some(91));
    long.grace = Duration::from_secs(300);
    engine.apply_gang(long.clone());
    cycle_at(&mut engine, 5);
    assert_eq!(reservation_start(&engine, "head"), Some(96), "grace counts");
    (long.runtime, long.grace) = (None, Duration::ZERO);
    engine.apply_gang(long.clone());
    cycle_at(&mut engine, 6);
    assert_eq!(
        reservation_start(&engine, "head"),
        None,
        "nobody knows any more"
    );
    // The gang has already run for longer, so it is past its end.
    long.runtime = minutes(1);
    engine.apply_gang(long);
    cycle_at(&mut engine, 7);
    assert_eq!(reservation_start(&engine, "head"), None);
}

#[test]
fn corrected_runtime_moves_the_quota_reservation() {
    let mut engine = engine(gpu_nodes(4));
    engine.apply_queue(queue("default", Some(&[(GPU, 8), ("cpu", 1_000_000)])));
    let runs = gpu_gang("runs", 4, Some(10));
    engine.apply_gang(runs.clone());
    engine.apply_gang(submitted_at(1, gpu_gang("head", 8, Some(10))));
    engine.apply_gang(submitted_at(2, gpu_gang("beside", 4, Some(15))));
    let said = cycle_at(&mut engine, 0);
    assert_eq!(said, ["+runs", "-head QuotaExceeded", "-beside Reserved"]);
    engine.apply_gang(Gang {
        runtime: minutes(15),
        ..runs
    });
    assert_eq!(cycle_at(&mut engine, 0), ["+beside"]);
}

/// The end of a preemptor counts from its start, also in an engine that is restored from a
/// snapshot.
#[test]
fn nominated_gang_ends_relative_to_its_start() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(Queue {
        preemption: PreemptionPolicy {
            within_queue: WithinQueuePolicy::LowerPriority,
            ..PreemptionPolicy::default()
        },
        ..Queue::new(QueueName::new("default"))
    });
    let low = whole_node_gang("low", 1, Some(60));
    engine.apply_gang(low.clone());
    assert_eq!(cycle_at(&mut engine, 0), ["+low"]);
    apply_pod(&mut engine, "team/low-worker-0", "n00", gpu(8, 8));
    let mut high = submitted_at(1, whole_node_gang("high", 1, Some(10)));
    high.priority = 1;
    engine.apply_gang(high);
    cycle_at(&mut engine, 1);
    let mut read = restored_engine(&engine).unwrap();
    for engine in [&mut engine, &mut read] {
        assert_eq!(engine.placed_gang_count(), 2, "one leaves, one follows");
        engine.release_gang(&id("low"), None);
        engine.delete_pod(&worker_key("low", 0));
        let said = cycle_at(engine, 5);
        assert_eq!(said, ["+high", "-low InsufficientCapacity"]);
        assert_eq!(reservation_start(engine, "low"), Some(15));
        assert_eq!(engine.next_wakeup(), Some(ms(15 * MINUTE + 1)));
    }
    assert_eq!(read.snapshot(), engine.snapshot());
}

/// Returns a gang with a predicted runtime of this many minutes.
fn with_prediction(gang: Gang, to_run: u64) -> Gang {
    Gang {
        runtime: None,
        predicted: minutes(to_run),
        ..gang
    }
}

#[test]
fn exceeded_prediction_is_replaced_by_the_next() {
    let mut engine = engine_with_blocked_head();
    engine.apply_gang(with_prediction(whole_node_gang("long", 2, None), 20));
    cycle_at(&mut engine, 2);
    assert_eq!(reservation_start(&engine, "head"), Some(21));
    engine.apply_gang(submitted_at(
        3,
        with_prediction(whole_node_gang("in-time", 1, None), 17),
    ));
    engine.apply_gang(submitted_at(
        3,
        with_prediction(whole_node_gang("too-long", 1, None), 19),
    ));
    engine.delete_gang(&id("short"));
    assert_eq!(
        cycle_at(&mut engine, 3),
        ["+in-time", "+too-long"],
        "the one ends in time, the other is beside the place"
    );
    // The gang was placed after a minute. When it exceeds 20 minutes, its prediction grows by one
    // minute, then by five.
    let past = |minute: i64| ms(minute * MINUTE + 1);
    engine.delete_gang(&id("in-time"));
    cycle_at(&mut engine, 4);
    assert_eq!(engine.next_wakeup(), Some(past(21)));
    engine.cycle(past(21));
    assert_eq!(reservation_start(&engine, "head"), Some(22));
    engine.cycle(past(22));
    assert_eq!(reservation_start(&engine, "head"), Some(27));
    // The gang has a known limit, and ends earlier.
    let mut long = with_prediction(whole_node_gang("long", 2, None), 20);
    long.runtime = minutes(24);
    engine.apply_gang(long);
    engine.cycle(past(22));
    assert_eq!(reservation_start(&engine, "head"), Some(25));
    engine.cycle(past(25));
    assert_eq!(reservation_start(&engine, "head"), None);
}

/// Small gangs keep coming. Their predicted end is in time, but they do not end then.
#[test]
fn head_is_not_passed_forever_by_gangs_predicted_to_end() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(with_prediction(whole_node_gang("first", 1, None), 10));
    cycle_at(&mut engine, 0);
    engine.apply_gang(submitted_at(1, whole_node_gang("head", 2, None)));
    let hour = 60;
    let mut passed_until = 0;
    let mut runs = vec![("first".to_owned(), 90)];
    let mut minute = 1;
    while engine.placement(&id("head")).is_none() && minute < 100 * hour {
        runs.retain(|(name, until)| {
            let goes_on = *until > minute;
            if !goes_on {
                engine.delete_gang(&id(name));
            }
            goes_on
        });
        let name = format!("small-{minute}");
        engine.apply_gang(submitted_at(
            minute,
            with_prediction(whole_node_gang(&name, 1, None), 1),
        ));
        cycle_at(&mut engine, minute);
        if engine.placement(&id(&name)).is_some() {
            runs.push((name, minute + 3 * hour));
            passed_until = minute;
        } else {
            engine.delete_gang(&id(&name));
        }
        minute += 30;
    }
    let day = 24 * hour;
    assert!(
        (day - 4 * hour..=day).contains(&passed_until),
        "{passed_until}"
    );
    assert!(minute <= day + 4 * hour, "{minute}");
}
